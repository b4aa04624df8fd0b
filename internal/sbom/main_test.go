package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const lock = "../../ui/package-lock.json"

// TestBillMatchesTheSchema: CycloneDX's own, which the module of its library contains.
func TestBillMatchesTheSchema(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pillion")
	if said, err := exec.Command("go", "build", "-o", program, "pillion.dev/cmd/pillion").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var bill, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&bill, &again} {
		if err := write(w, "v1.2.3", lock, []string{program}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(bill.Bytes(), again.Bytes()) {
		t.Error("the same program gives two bills")
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(bill.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t).Validate(document); err != nil {
		t.Error(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(&bill, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		name, _, _ := strings.Cut(c.PackageURL, "@")
		found[name] = c.Licenses != nil
	}
	for _, name := range []string{"pkg:golang/std", "pkg:golang/connectrpc.com/connect"} {
		if !found[name] {
			t.Errorf("%s with its licence is missing: %v", name, found)
		}
	}
}

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
	if err := m.page("file:pillion-server"); err != nil {
		t.Fatal(err)
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
