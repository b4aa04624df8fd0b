package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pillion.dev/internal/netns"
)

// cookiesFile has the cookies of the namespaces, by which they are found if the lab was
// started in another mount namespace.
const cookiesFile = "namespaces.json"

// saveCookies records the namespaces of all hosts.
func (s state) saveCookies(spec *Spec) error {
	var cookies []uint64
	for host := range spec.Hosts {
		err := netns.Do(namespace(spec.Name, host), func() error {
			cookie, err := netns.Cookie()
			cookies = append(cookies, cookie)
			return err
		})
		if err != nil {
			return fmt.Errorf("identify host %s: %w", host, err)
		}
	}
	return s.save(cookiesFile, cookies)
}

// addByCookie adds the lab's namespaces that have processes, as the link text of
// /proc/<pid>/ns/net. Inode numbers are used again, cookies are not.
func (s state) addByCookie(ours map[string]bool) error {
	var cookies []uint64
	err := s.load(cookiesFile, &cookies)
	if errors.Is(err, fs.ErrNotExist) { // a crash preceded it, and there are no processes
		return nil
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	paths, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, path := range paths {
		where, err := os.Readlink(path)
		if err != nil || seen[where] {
			continue
		}
		seen[where] = true
		if cookie, err := cookieOf(path); err == nil && slices.Contains(cookies, cookie) {
			ours[where] = true
		}
	}
	return nil
}

// cookieOf is the cookie of the namespace behind a path; an error: its last process has ended.
func cookieOf(path string) (cookie uint64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	err = netns.DoIn(file, func() (err error) {
		cookie, err = netns.Cookie()
		return err
	})
	return cookie, err
}
