package runner

import (
	"context"
	"errors"
)

// prepare makes what all runs share: the lab and the stream of rows.
func (r *runner) prepare(context.Context) error {
	if r.spec.Lab != "" || len(r.spec.Hosts) > 0 || r.Collector != "" {
		return errors.New("prepare experiment: labs, hosts and collectors are not supported by this version")
	}
	return nil
}

// cleanUp removes what prepare made, also after an interrupt.
func (r *runner) cleanUp() error {
	return errors.Join(r.stream.close(), r.processes.remove())
}
