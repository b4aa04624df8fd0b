// Command sbom writes the software bill of materials of a release (CycloneDX 1.6, JSON):
// its programs, the Go modules that their build information names, and the npm packages
// of the page and of reports. The same files give the same bytes: there is no time of writing, and the
// serial number derives from the content.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"pillion.dev/internal/notice"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION PACKAGE-LOCK PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, version, lock string, programs []string) error {
	m, err := newMaterials(version, lock)
	if err != nil {
		return err
	}
	for _, path := range programs {
		if err := m.add(path); err != nil {
			return fmt.Errorf("read program %s: %w", path, err)
		}
	}
	var content bytes.Buffer
	for _, serial := range []bool{false, true} {
		bom := m.bom()
		if serial {
			sum := sha256.Sum256(content.Bytes())
			bom.SerialNumber = uuid(sum)
		}
		content.Reset()
		if err := cyclonedx.NewBOMEncoder(&content, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
			return err
		}
	}
	_, err = w.Write(content.Bytes())
	return err
}

// uuid is a version 8 UUID (RFC 9562) of a sum.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return "urn:uuid:" + strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// materials collects components and what contains them.
type materials struct {
	version string
	// licensed are the components that notice knows, by kind and name.
	licensed map[[2]string]notice.Component
	// integrity of npm packages, from the lock file.
	integrity  map[string]string
	components map[string]cyclonedx.Component
	programs   []string
	contains   map[string][]string
}

func newMaterials(version, lock string) (*materials, error) {
	m := &materials{
		version: version, licensed: map[[2]string]notice.Component{}, integrity: map[string]string{},
		components: map[string]cyclonedx.Component{}, contains: map[string][]string{},
	}
	for _, c := range notice.All() {
		m.licensed[[2]string{c.Kind, c.Name}] = c
	}
	content, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var packages struct {
		Packages map[string]struct{ Integrity string }
	}
	if err := json.Unmarshal(content, &packages); err != nil {
		return nil, fmt.Errorf("read %s: %w", lock, err)
	}
	for path, p := range packages.Packages {
		m.integrity[strings.TrimPrefix(path, "node_modules/")] = p.Integrity
	}
	return m, nil
}

// add adds a program with what it contains.
func (m *materials) add(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	ref := "file:" + filepath.Base(path)
	m.programs = append(m.programs, ref)
	m.components[ref] = cyclonedx.Component{
		BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: filepath.Base(path), Version: m.version,
		Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses: licences("Apache-2.0"),
	}
	m.contain(ref, "pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go"), cyclonedx.Component{
		Name: notice.Standard, Version: info.GoVersion, Licenses: licences("BSD-3-Clause"),
	})
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		known, found := m.licensed[[2]string{notice.Go, module.Path}]
		if !found || known.Version != module.Version {
			return fmt.Errorf("no licence of %s %s: run go generate ./internal/notice", module.Path, module.Version)
		}
		m.contain(ref, "pkg:golang/"+module.Path+"@"+module.Version, cyclonedx.Component{
			Name: module.Path, Version: module.Version, Licenses: licences(known.License),
			Properties: &[]cyclonedx.Property{{Name: "go.sum", Value: module.Sum}},
		})
	}
	return m.pack(ref, filepath.Base(info.Path))
}

// pack adds the npm packages of a program.
func (m *materials) pack(ref, program string) error {
	for key, c := range m.licensed {
		if key[0] != notice.NPM || !notice.Packed(program, c.Name) {
			continue
		}
		encoded, found := strings.CutPrefix(m.integrity[c.Name], "sha512-")
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil {
			return fmt.Errorf("package %s: integrity %q", c.Name, m.integrity[c.Name])
		}
		m.contain(ref, "pkg:npm/"+strings.Replace(c.Name, "@", "%40", 1)+"@"+c.Version, cyclonedx.Component{
			Name: c.Name, Version: c.Version, Licenses: licences(c.License),
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA512, Value: hex.EncodeToString(sum)}},
		})
	}
	return nil
}

func (m *materials) contain(program, purl string, c cyclonedx.Component) {
	c.BOMRef, c.PackageURL, c.Type = purl, purl, cyclonedx.ComponentTypeLibrary
	m.components[purl] = c
	m.contains[program] = append(m.contains[program], purl)
}

// licences of an SPDX expression; a single identifier is one as well.
func licences(expression string) *cyclonedx.Licenses {
	if strings.Contains(expression, " ") {
		return &cyclonedx.Licenses{{Expression: expression}}
	}
	return &cyclonedx.Licenses{{License: &cyclonedx.License{ID: expression}}}
}

const release = "pillion"

func (m *materials) bom() *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: release, Type: cyclonedx.ComponentTypeApplication, Name: release, Version: m.version, Licenses: licences("Apache-2.0"),
	}}
	var components []cyclonedx.Component
	dependencies := []cyclonedx.Dependency{{Ref: release, Dependencies: &m.programs}}
	for ref, c := range m.components {
		components = append(components, c)
		d := cyclonedx.Dependency{Ref: ref}
		if inside := m.contains[ref]; inside != nil {
			slices.Sort(inside)
			d.Dependencies = &inside
		}
		dependencies = append(dependencies, d)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	slices.SortFunc(dependencies, func(a, b cyclonedx.Dependency) int { return strings.Compare(a.Ref, b.Ref) })
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}
