package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Class says what happens when a state file is damaged or missing, and its previous version too.
type Class string

// Classes of state files.
const (
	Required     Class = "required"     // the program does not start
	Recomputable Class = "recomputable" // its content is computed again
	Expendable   Class = "expendable"   // its content is lost
)

// File is a state file.
type File struct {
	Name  string
	Class Class
	Lost  string // what is lost without it
}

// Files are the state files of the data directories of a server and of agents.
var Files = []File{
	{"authority.pem", Required, "the key of the authority: all agents have to join again"},
	{"tokens.json", Required, "all tokens"},
	{"revocations.json", Required, "what was revoked and deleted; agents that connect bring the list back"},
	{"agents.json", Required, "labels, approvals and sites of agents; those that connect are recorded again"},
	{"sessions.json", Required, "all sessions"},
	{"identity.json", Required, "the key of the agent: revoke and delete it on the server, and let the host join again"},
	{"assignments.json", Recomputable, "nothing: tasks are assigned again"},
	{"server.pem", Recomputable, "nothing: a certificate is made"},
	{"bus.pem", Recomputable, "nothing: a certificate is made"},
	{"callout.pem", Recomputable, "nothing: a certificate is made"},
	{"system.pem", Recomputable, "nothing: a certificate is made"},
	{"format.json", Recomputable, "nothing, unless a later version wrote the directory"},
	{"clock.json", Recomputable, "the time that has elapsed: it begins with the last event"},
	{"oml.json", Expendable, "which stream each table of an application has: applications that report again get one"},
	{"oml.owners.json", Expendable, "which application an OML domain of the agent belongs to: the next one that reports gets it"},
	{"alarms.json", Expendable, "active alarms, acknowledgements and silences"},
}

const previousSuffix, sealBits = ".previous", 32

type notice struct{ path, text string }

// notices are what Read has found.
var notices struct {
	sync.Mutex
	list []notice
}

// Notices returns, once, what was wrong with the state files below a folder.
func Notices(folder string) (list []string) {
	notices.Lock()
	defer notices.Unlock()
	notices.list = slices.DeleteFunc(notices.list, func(n notice) bool {
		below := strings.HasPrefix(n.path, filepath.Clean(folder)+string(filepath.Separator))
		if below {
			list = append(list, n.text)
		}
		return below
	})
	return list
}

// Notice adds one.
func Notice(path, format string, a ...any) {
	notices.Lock()
	defer notices.Unlock()
	notices.list = append(notices.list, notice{path, fmt.Sprintf(format, a...)})
}

// Write replaces a state file and syncs it to disk. JSON gets a checksum; the version that it replaces
// stays beside it. A file that is not one of Files is only replaced.
func Write(path string, text []byte, mode fs.FileMode) error {
	if _, known := fileOf(path); !known {
		return Replace(path, text, mode)
	}
	return replace(path, sealed(path, text), mode, func() error {
		if _, err := os.Lstat(path); err != nil {
			return nil // there is none yet
		}
		previous := path + previousSuffix
		if err := errors.Join(os.RemoveAll(previous), os.Link(path, previous)); err == nil {
			return nil
		}
		before, err := os.ReadFile(path) // neither every file system nor the confined agent has links
		if err != nil {
			return nil // nor a version to keep
		}
		return Replace(previous, before, mode)
	})
}

// Read returns the text of a state file, without its checksum; nil if there is none, of a file that is not one of
// Files an error. Check says what is wrong with a text. If the file is damaged, or missing although its previous
// version exists, that takes its place. If that is damaged too, the error of a required file says what is lost
// and what to do; another file is set aside.
func Read(path string, check func([]byte) error) ([]byte, error) {
	text, why := read(path, check)
	file, known := fileOf(path)
	if why == nil || !known {
		return text, why
	}
	previous, failed := read(path+previousSuffix, check)
	if errors.Is(why, fs.ErrNotExist) && errors.Is(failed, fs.ErrNotExist) {
		return nil, nil
	}
	if failed != nil && file.Class == Required {
		return nil, fmt.Errorf("%s is damaged: %w; lost: %s; restore a backup, or move it and %s away to go on without it (docs/howto/recover.md)",
			path, why, file.Lost, file.Name+previousSuffix)
	}
	aside := path + ".damaged"
	if err := errors.Join(os.RemoveAll(aside), os.Rename(path, aside)); err != nil && !errors.Is(why, fs.ErrNotExist) {
		return nil, err
	}
	if failed != nil {
		_ = os.RemoveAll(path + previousSuffix) // or it is reported again
		Notice(path, "%s is damaged and set aside: %v; lost: %s", path, why, file.Lost)
		return nil, nil
	}
	Notice(path, "%s is damaged or missing: %v; its previous version is in use, and the last change is lost", path, why)
	return previous, Replace(path, sealed(path, previous), 0o600)
}

func fileOf(path string) (File, bool) {
	i := slices.IndexFunc(Files, func(f File) bool { return f.Name == filepath.Base(path) })
	if i < 0 {
		return File{}, false
	}
	return Files[i], true
}

func read(path string, check func([]byte) error) ([]byte, error) {
	text, err := os.ReadFile(path)
	path = strings.TrimSuffix(path, previousSuffix)
	if _, known := fileOf(path); err == nil && known && filepath.Ext(path) == ".json" {
		if text, err = unseal(text); err == nil && !json.Valid(text) {
			err = errors.New("not JSON")
		}
	}
	if err == nil {
		err = check(text)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// sealed is the text with, if it is JSON, a checksum: a line of 32 spaces and tabs, which every reader of JSON skips.
func sealed(path string, text []byte) []byte {
	if filepath.Ext(path) != ".json" {
		return text
	}
	text = append(slices.Clone(bytes.TrimRight(text, " \t\n")), '\n')
	sum := crc32.ChecksumIEEE(text)
	for bit := range sealBits {
		text = append(text, " \t"[sum>>bit&1])
	}
	return append(text, '\n')
}

// unseal returns the text before its checksum. A file that was edited by hand has none.
func unseal(text []byte) ([]byte, error) {
	body := bytes.TrimRight(text, " \t\n")
	if end := len(text) - len(body); end < sealBits+2 {
		return text, nil
	}
	if !bytes.Equal(sealed(".json", body), text) {
		return nil, errors.New("wrong checksum")
	}
	return body, nil
}
