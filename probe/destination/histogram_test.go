package destination

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/measure/histogram"
)

// layoutProgram prints the layout of bpf/histogram.h, then for each value that it
// reads its bucket, the offset in it, and its page and bucket there.
const layoutProgram = `
#include <stdio.h>
#include <linux/types.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#include "../bpf/histogram.h"

int main(void)
{
	long long value;

	printf("%d %d %d\n", HISTOGRAM_SIDE, HISTOGRAM_PAGE, HISTOGRAM_PAGES);
	while (scanf("%lld", &value) == 1) {
		struct histogram_place at = histogram_find(value);
		unsigned long long offset;
		int index = histogram_index(value, &offset);

		printf("%d %llu %u %u\n", index, offset, at.page, at.bucket);
	}
	return 0;
}
`

// TestHeaderLayout compiles the header for this machine and reads the vectors of
// package histogram with it.
func TestHeaderLayout(t *testing.T) {
	text, err := os.ReadFile("../../measure/histogram/testdata/layout.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Value int64 `json:"value,string"`
		Index int   `json:"index"`
		Bound int64 `json:"bound,string"`
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) == 0 {
		t.Fatalf("%d vectors, %v", len(rows), err)
	}
	want := fmt.Sprintf("%d %d %d\n", histogram.Side, pageSize, 2*sidePages)
	values := ""
	for _, row := range rows {
		values += fmt.Sprintln(row.Value)
		page, bucket := row.Index>>5+sidePages, row.Index&(pageSize-1)
		want += fmt.Sprintln(row.Index, uint64(row.Value-row.Bound), page, bucket)
	}
	binary := filepath.Join(t.TempDir(), "layout")
	compile := exec.Command("cc", "-x", "c", "-Wall", "-Werror", "-fwrapv", "-o", binary, "-")
	compile.Stdin = strings.NewReader(layoutProgram)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	run := exec.Command(binary)
	run.Stdin = strings.NewReader(values)
	got, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	if len(gotLines) != len(wantLines) || gotLines[0] != wantLines[0] {
		t.Fatalf("%d lines, the first %q; want %d, %q", len(gotLines), gotLines[0], len(wantLines), wantLines[0])
	}
	for i := 1; i < len(wantLines); i++ {
		if gotLines[i] != wantLines[i] {
			t.Errorf("%d: got %s, want %s", rows[i-1].Value, gotLines[i], wantLines[i])
		}
	}
}

// TestPageSizes binds the page sizes to those of the program.
func TestPageSizes(t *testing.T) {
	var f destinationFlow

	if len(f.Histograms.DelaySlots) != 2*sidePages || len(f.Histograms.VariationSlots) != 2*sidePages || len(f.Histograms.DelayPages[0].Counts) != pageSize {
		t.Errorf("%d and %d pages of %d buckets", len(f.Histograms.DelaySlots), len(f.Histograms.VariationSlots), len(f.Histograms.DelayPages[0].Counts))
	}
}
