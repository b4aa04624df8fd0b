// Command oci writes container images of a release: a layer with the system files that the programs need, and a
// layer with the program. It needs neither a base image nor a network. The same programs, system libraries and time
// give identical bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// build has the parameters that all images of a release have in common.
type build struct {
	in, out           string
	version, revision string
	created           time.Time
}

func main() {
	var b build
	var epoch int64
	flag.StringVar(&b.in, "in", "bin/release", "folder of the release")
	flag.StringVar(&b.out, "out", "bin/images", "folder of the images, which must exist")
	flag.StringVar(&b.version, "version", "", "version, also the tag")
	flag.StringVar(&b.revision, "revision", "", "commit")
	flag.Int64Var(&epoch, "epoch", 0, "time of all files, seconds since 1970")
	flag.Parse()
	b.created = time.Unix(epoch, 0).UTC()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

// run writes one image for each program and processor architecture in the release.
func (b build) run() error {
	written := 0
	for _, p := range programs {
		found, err := filepath.Glob(filepath.Join(b.in, p.name+"-linux-*"))
		if err != nil {
			return err
		}
		slices.Sort(found)
		for _, path := range found {
			processor := strings.TrimPrefix(filepath.Base(path), p.name+"-linux-")
			platform, ok := platforms[processor]
			if !ok {
				continue // no container runtime supports this architecture
			}
			platform.OS = "linux"
			out := filepath.Join(b.out, fmt.Sprintf("%s-%s-linux-%s.tar", p.name, b.version, processor))
			if err := b.image(p, path, platform, out); err != nil {
				return fmt.Errorf("build image of %s: %w", path, err)
			}
			written++
		}
	}
	if written == 0 {
		return fmt.Errorf("find programs in %s: there are none", b.in)
	}
	return nil
}
