package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pillion.dev/cli/agent"
)

// TestNmetricsCommand: two readings of this host and of this process, as OMSP.
func TestNmetricsCommand(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows")
	c := nmetricsCmd{
		ReportFlags: agent.ReportFlags{OML: "file:" + rows, OMLDomain: "lab", OMLID: "me"},
		Interval:    10 * time.Millisecond, Process: []string{strconv.Itoa(os.Getpid())}, Count: 2,
	}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"app-name: nmetrics\n", "schema: 1 nmetrics_cpu user:uint64", "schema: 4 nmetrics_process pid:uint32 name:string", "\t4\t2\t" + strconv.Itoa(os.Getpid()) + "\t"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if strings.Contains(string(text), "\t4\t3\t") {
		t.Error("more than two readings")
	}
	for _, bad := range []nmetricsCmd{{Interval: time.Nanosecond}, {Interval: time.Second, Process: []string{"["}}} {
		if err := bad.Run(t.Context()); err == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
}
