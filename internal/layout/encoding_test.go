package layout

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"testing"
)

// encodingFilesLimit is how many hand-written files a new encoding may take.
const encodingFilesLimit = 8

// encodingName finds the encoding ipip, which shares its name with nothing but
// the constant of the protocol number.
var (
	encodingName = regexp.MustCompile(`(?i)ipip`)
	protocolName = regexp.MustCompile(`IPPROTO_IPIP|protocolIPIP|local IPIP|[^.]\bIPIP\b`)
	listedFile   = regexp.MustCompile("(?m)^[0-9]+\\. `([^`]+)`")
	generated    = regexp.MustCompile(`(?m)^(//|<!--|/\*\*).*([Gg]enerated (by|from)|@generated)`)
	watchedFile  = regexp.MustCompile(`\.(go|c|h|lua|ts|tsx|proto|py|md)$`)
)

// TestEncodingFiles checks that the files that name one encoding, ipip, are those
// that docs/howto/extending.md lists for a new one. Tests of a certain encoding may name it.
func TestEncodingFiles(t *testing.T) {
	guide, err := os.ReadFile("docs/howto/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := bytes.Cut(guide, []byte("\n## An encoding\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	var listed []string
	for _, m := range listedFile.FindAllSubmatch(section, -1) {
		listed = append(listed, string(bytes.ReplaceAll(m[1], []byte("<encoding>"), []byte("ipip"))))
	}
	if len(listed) < 4 || len(listed) > encodingFilesLimit {
		t.Errorf("docs/howto/extending.md lists %d files for an encoding, the limit is %d", len(listed), encodingFilesLimit)
	}
	// ipip shares a file with the other shims; the document explains every encoding.
	allowed := append(listed, "probe/source/shim.h", "docs/reference/wire.md", "docs/reference/wire-packets.md")
	eachWatched(t, allowed, func(name string, text []byte) {
		if encodingName.Match(protocolName.ReplaceAll(text, nil)) {
			t.Errorf("%s names the encoding ipip: take names from package wire", name)
		}
	})
}

// eachWatched passes on the hand-written files of the tree but for tests and those excepted.
func eachWatched(t *testing.T, except []string, check func(name string, text []byte)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if isUnwatched(name) {
				return fs.SkipDir
			}
			return nil
		}
		if !watchedFile.MatchString(name) || testFile.MatchString(name) || slices.Contains(except, name) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil && !generated.Match(text) {
			check(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
