package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// DefaultUser is the user that the unprivileged part runs as if there is one of that name.
const DefaultUser = "pillion"

// fallbackID is used where there is none: from a range that systemd documents as unused, and
// that containers have too.
const fallbackID = 60847

// User that the unprivileged part runs as.
type User struct{ UID, GID int }

// ErrUser marks a user that the unprivileged part cannot run as.
var ErrUser = errors.New("cannot run as that user")

// Choose returns the user of that name or number; without one, the owner of the folder, or
// DefaultUser, or a number that nobody uses. A process that is not root can only choose its
// own user.
func Choose(name, folder string) (User, error) {
	self := User{os.Geteuid(), os.Getegid()}
	if name != "" {
		u, err := lookUp(name)
		if err == nil && self.UID != 0 && u.UID != self.UID {
			err = errors.New("only root can change the user")
		}
		if err != nil {
			return User{}, fmt.Errorf("%w: %q: %w", ErrUser, name, err)
		}
		return u, nil
	}
	if self.UID != 0 {
		return self, nil
	}
	if u, err := ownerOf(folder); err == nil && u.UID != 0 {
		return u, nil
	}
	if u, err := lookUp(DefaultUser); err == nil && u.UID != 0 {
		return u, nil
	}
	return User{fallbackID, fallbackID}, nil
}

func lookUp(name string) (User, error) {
	found, err := user.Lookup(name)
	if err != nil {
		id, wrong := strconv.ParseUint(name, 10, 31)
		if wrong != nil {
			return User{}, err
		}
		if found, err = user.LookupId(name); err != nil {
			return User{int(id), int(id)}, nil
		}
	}
	uid, err := strconv.Atoi(found.Uid)
	gid, err2 := strconv.Atoi(found.Gid)
	return User{uid, gid}, errors.Join(err, err2)
}

func ownerOf(path string) (User, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return User{}, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return User{int(stat.Uid), int(stat.Gid)}, nil
}

// ErrFolder marks a folder that cannot be handed to the unprivileged part.
var ErrFolder = errors.New("not a folder of an agent")

// Give makes the folder the user's, with what is in it, and creates it if there is none. It
// leaves alone a folder that is the user's already, whose content is not trusted, and refuses
// one that neither is empty nor has one of the contents.
func Give(folder string, to User, contents ...string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create folder of the agent: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return fmt.Errorf("find folder of the agent: %w", err)
	}
	owner, err := ownerOf(resolved)
	if err != nil {
		return fmt.Errorf("find folder of the agent: %w", err)
	}
	if owner.UID == to.UID {
		return nil
	}
	entries, err := os.ReadDir(resolved)
	if err != nil {
		return fmt.Errorf("read folder of the agent: %w", err)
	}
	ours := len(entries) == 0
	for _, name := range contents {
		_, err := os.Lstat(filepath.Join(resolved, name))
		ours = ours || err == nil
	}
	if !ours {
		return fmt.Errorf("give %s to user %d: %w, and not empty: choose another with --data, or its owner with --user", folder, to.UID, ErrFolder)
	}
	err = filepath.WalkDir(resolved, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		// A file with another name elsewhere may be somebody else's.
		if info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink > 1 || !info.Mode().IsRegular() && !info.IsDir() || path == resolved {
			return nil
		}
		return os.Lchown(path, to.UID, to.GID)
	})
	if err == nil { // the folder last: until then a repetition continues
		err = os.Lchown(resolved, to.UID, to.GID)
	}
	if err != nil {
		return fmt.Errorf("give %s to user %d: %w", folder, to.UID, err)
	}
	return nil
}
