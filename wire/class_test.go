package wire_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pillion.dev/wire"
)

// TestClassIndex: each class has a place of its own, and C the same one.
func TestClassIndex(t *testing.T) {
	header, err := os.ReadFile("wire.h")
	if err != nil {
		t.Fatal(err)
	}
	defined := func(name string) int {
		m := regexp.MustCompile(`#define ` + name + ` (\w+)`).FindSubmatch(header)
		if m == nil {
			t.Fatalf("wire.h does not define %s", name)
		}
		n, err := strconv.ParseInt(string(m[1]), 0, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return int(n)
	}
	if got := defined("WIRE_CLASSES"); got != wire.Classes {
		t.Errorf("%d classes in wire.h, %d in Go", got, wire.Classes)
	}
	for i, name := range classNames {
		if got, want := wire.Class(1<<i).Index(), defined(strings.Replace(name, "WIRE_", "WIRE_INDEX_", 1)); got != want {
			t.Errorf("%s: %#x in Go, %#x in wire.h", name, got, want)
		}
	}
	places := map[int]wire.Class{}
	for class := range wire.EachClass {
		index := class.Index()
		if other, taken := places[index]; taken || index < 0 || index >= wire.Classes {
			t.Errorf("class %s has the index %d, as %s, of %d", fmt.Sprintf("%#x", class), index, fmt.Sprintf("%#x", other), wire.Classes)
		}
		places[index] = class
	}
	if len(places) != 48 {
		t.Errorf("%d classes, want 48", len(places))
	}
}
