package notice

import (
	"bytes"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestTextsSurviveWriting(t *testing.T) {
	all := All()
	var text bytes.Buffer
	if err := Write(&text, all); err != nil {
		t.Fatal(err)
	}
	again := Parse(text.String())
	if !slices.Equal(all, again) {
		t.Errorf("%d components became %d others", len(all), len(again))
	}
	for _, c := range all {
		if len(c.Text) < 200 || strings.Contains(c.Text, "\n=== ") {
			t.Errorf("%s %s: text of %d bytes", c.Name, c.Version, len(c.Text))
		}
	}
}

// TestEveryModuleHasALicence: at the version that go.mod selects.
func TestEveryModuleHasALicence(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, c := range All() {
		versions[c.Name] = c.Version
	}
	for line := range strings.Lines(string(out)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path != "" && path != Pillion && versions[path] != version {
			t.Errorf("%s %s has the licence of version %q; run go generate ./internal/notice", path, version, versions[path])
			versions[path] = version // once
		}
	}
}

func TestLinked(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "github.com/cilium/ebpf"}}}
	names := func(program string) (all []string) {
		for _, c := range Linked(info, program) {
			all = append(all, c.Name)
		}
		return all
	}
	if got := names("pillion"); !slices.Equal(got, []string{Pillion, "github.com/cilium/ebpf", Standard}) {
		t.Errorf("without a page: %v", got)
	}
	if got := names("pillion-agent"); !slices.Equal(got, []string{Pillion, "github.com/cilium/ebpf", Standard, "preact"}) {
		t.Errorf("with a report: %v", got)
	}
	if got := names("pillion-server"); !slices.Contains(got, "uplot") || !slices.Contains(got, "@bufbuild/protobuf") {
		t.Errorf("with the page: %v", got)
	}
}
