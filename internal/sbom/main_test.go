package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const lock = "../../ui/package-lock.json"

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	const base = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		content, err := os.Open(filepath.Join(strings.TrimSpace(string(folder)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		document, err := jsonschema.UnmarshalJSON(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+name, document); err != nil {
			t.Fatal(err)
		}
	}
	s, err := compiler.Compile(base + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPageIsPartOfTheServer: its packages with their sums.
func TestPageIsPartOfTheServer(t *testing.T) {
	m, err := newMaterials("v1", lock)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"pillion-server", "pillion-agent", "pillion"} {
		if err := m.pack("file:"+program, program); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.contains["file:pillion-agent"]); n != 1 || len(m.contains["file:pillion"]) != 0 {
		t.Errorf("the agent contains %v, the command line %v", m.contains["file:pillion-agent"], m.contains["file:pillion"])
	}
	c := m.components["pkg:npm/%40bufbuild/protobuf@"+m.licensed[[2]string{"npm", "@bufbuild/protobuf"}].Version]
	if c.Hashes == nil || len((*c.Hashes)[0].Value) != 128 || (*c.Licenses)[0].Expression != "Apache-2.0 AND BSD-3-Clause" {
		t.Errorf("got %+v", c)
	}
}

func TestModuleWithoutLicenceIsRefused(t *testing.T) {
	m, err := newMaterials("v1", lock)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // a test contains modules that no program does
	if err != nil {
		t.Fatal(err)
	}
	if err := m.add(self); err == nil || !strings.Contains(err.Error(), "go generate ./internal/notice") {
		t.Errorf("got %v", err)
	}
}
