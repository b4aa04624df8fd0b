//go:build long

package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLongApplicationDuringFaults: every sample that an application reports to the agent of
// its host is stored once, although the network is cut and the agent killed meanwhile.
func TestLongApplicationDuringFaults(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, calmHosts)
	python, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	ended := make(chan []byte, 1)
	command := exec.Command("env", "PYTHONPATH="+python, "python3", "-c", application, cut)
	go func() {
		output, _ := b.Exec(t.Context(), "b", command.Args...)
		ended <- output
	}()
	const rows = "SELECT count(*) FROM oml_trial_app_sine"
	eventually(t, "first samples to come", func() bool {
		n, err := b.tryNumber(rows)
		return err == nil && n > 1000
	})
	b.cut(true)
	if err := os.WriteFile(cut, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, reported := range []int{4000, 8000} {
		eventually(t, "samples to accumulate", func() bool {
			text, _ := os.ReadFile(cut)
			n, _ := strconv.Atoi(string(text))
			return n >= reported
		})
		b.kill("agent-b")
		b.start("agent-b")
	}
	if output := string(<-ended); !strings.HasSuffix(output, "\n0 dropped\n") {
		t.Errorf("output of the application: %q", output)
	}
	if n := b.number(rows); n > 2000 {
		t.Errorf("%d rows arrived although the network was cut", n)
	}
	b.cut(false)
	b.reaches(12_000, rows)
	b.reaches(12_000, "SELECT count(DISTINCT number) FROM oml_trial_app_sine WHERE oml_seq = number + 1 AND value = number::DOUBLE / 7 AND agent = 'b'")
	b.reaches(0, "SELECT sum(gaps) FROM oml_connections")
}
