// Package root finds the root of the repository for tests of what lies outside of their package.
package root

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Folder returns the root of the repository: the folder of go.mod, in or above the working directory.
func Folder(t testing.TB) string {
	t.Helper()
	folder, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// Main runs the tests of a package with the root of the repository as the working directory, and
// returns the exit code.
func Main(m *testing.M) int {
	folder, err := find()
	if err == nil {
		err = os.Chdir(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func find() (string, error) {
	folder, err := os.Getwd()
	for ; err == nil && folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
	}
	return "", errors.Join(err, errors.New("find the root of the repository: no go.mod in or above the working directory"))
}
