// Package buildtag tells tests that run the go command the build tags of make.
package buildtag

import (
	"os"
	"strings"
)

// With returns the flag -tags with the tags of make, whose packages are compiled already, and another one.
func With(tag string) string {
	for flag := range strings.FieldsSeq(os.Getenv("GOFLAGS")) {
		if strings.HasPrefix(flag, "-tags=") {
			return flag + "," + tag
		}
	}
	return "-tags=" + tag
}
