//go:build long

package lab_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pillion.dev/internal/free"
	"pillion.dev/lab"
)

// TestLongTutorial: the commands of docs/tutorial/tutorial.md, one after the other by one shell, show what
// it says and leave nothing. The lab has its own name and port.
func TestLongTutorial(t *testing.T) {
	t.Parallel() // it mostly waits
	d := newDesk(t)
	name, port := fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1)), strconv.Itoa(free.Port(t))
	t.Cleanup(func() {
		if names, err := lab.List(); err == nil && slices.Contains(names, name) {
			if err := lab.Down(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	d.environment = append(d.environment, "PILLION_SERVER=localhost:"+port)
	text := ofClass(t, "docs/tutorial/tutorial.md", "tutorial")
	for _, step := range []string{"name: tutorial\n", "forward: 8470", "lab up try.yaml", "--lab tutorial", "lab down tutorial", "rm try.yaml first.csv\n"} {
		if !strings.Contains(text, step) {
			t.Fatalf("docs/tutorial/tutorial.md does not have %q", step)
		}
	}
	text = strings.NewReplacer("tutorial", name, "8470", port, "rm try.yaml first.csv\n", "").Replace(text)
	said := d.run(text)
	t.Log(said)
	for _, shown := range []string{
		`(?m)^\S+  paris > tokyo  .* p50 [12][0-9]\.\d+ ms `, // at first, with a busy processor's share
		`(?m)^\S+  paris > tokyo  .* p50 4\d\.\d+ ms `,       // changed
		`(?m)±0 ns`,
		`(?m)^SENT\s+LOST\s+LOSS_PERCENT\s+PLUS_MINUS`,
	} {
		if !regexp.MustCompile(shown).MatchString(said) {
			t.Errorf("the commands do not show %s", shown)
		}
	}
	file, err := os.Open(d.folder + "/first.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 15 {
		t.Errorf("%d rows are exported, want at least one for each of 15 lines: %v", len(rows), err)
	}
	expectGone(t, name)
}
