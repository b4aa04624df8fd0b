package netns

import (
	"fmt"
	"os/exec"
	"strings"
)

// IP runs lines of the ip command in the named namespace, all in one process. It does not
// use ip's option -n, which remounts folders and fails in a chroot.
func IP(name string, lines ...string) error {
	command := exec.Command("ip", "-batch", "-")
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	_, err := Run(name, command)
	return err
}

// Run runs a command in the named namespace and returns what it printed, which an error contains.
func Run(name string, command *exec.Cmd) (output string, err error) {
	var said []byte
	err = Do(name, func() (err error) {
		said, err = command.CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("run %s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(string(said)))
	}
	return string(said), nil
}
