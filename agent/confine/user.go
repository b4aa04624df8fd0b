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

// DefaultUser is the user that the unprivileged part runs as, if the host has a user of that name.
const DefaultUser = "pillion"

// fallbackID is the user and group ID of the unprivileged part on a host without DefaultUser. It is from a
// range that systemd documents as unused, and below 65536, so that containers map it.
const fallbackID = 60847

// User that the unprivileged part runs as.
type User struct{ UID, GID int }

// ErrUser marks a user that the unprivileged part cannot run as.
var ErrUser = errors.New("cannot run as that user")

// Choose returns the user of the given name or ID. Without a name it is the owner of the folder unless
// that is root, else DefaultUser, else fallbackID. A process that is not root can only choose its own user.
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

// Give changes the owner of the folder and of its content to the user, and creates a missing folder. It
// does not touch a folder that the user already owns, because its content is not trusted. It
// refuses a folder that is neither empty nor contains one of the named files (ErrFolder).
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
		// A file with a second hard link may belong to somebody else.
		if info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink > 1 || !info.Mode().IsRegular() && !info.IsDir() || path == resolved {
			return nil
		}
		return os.Lchown(path, to.UID, to.GID)
	})
	if err == nil { // the folder last, so that the next start repeats an interrupted change
		err = os.Lchown(resolved, to.UID, to.GID)
	}
	if err != nil {
		return fmt.Errorf("give %s to user %d: %w", folder, to.UID, err)
	}
	return nil
}
