package lab

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"
)

// startRuns starts the commands of the spec in their hosts and leaves them alone:
// one that ends, or cannot start, has said so in its log. As all that runs inside
// the lab, down ends them.
func (b *builder) startRuns() error {
	built := &Lab{*b.spec, b.state}
	for _, host := range slices.Sorted(maps.Keys(b.spec.Hosts)) {
		lines := b.spec.Hosts[host].Run
		if len(lines) == 0 {
			continue
		}
		log, err := os.Create(b.state.path("run-" + host + ".log"))
		if err != nil {
			return fmt.Errorf("create log: %w", err)
		}
		defer log.Close()
		for _, line := range lines {
			command := exec.Command("/bin/sh", "-c", line)
			command.Stdout, command.Stderr = log, log
			command.SysProcAttr = &unix.SysProcAttr{Setsid: true} // Ctrl-C is for us
			command.Dir = "/"
			if err := built.Start(host, command); err != nil {
				return fmt.Errorf("run %q in host %s: %w", line, host, err)
			}
			go command.Wait() // leave no zombie
		}
	}
	return nil
}
