//go:build long

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestLongBillMatchesTheSchema: CycloneDX's own, which the module of its library contains.
func TestLongBillMatchesTheSchema(t *testing.T) {
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
