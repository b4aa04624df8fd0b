package sender

import (
	"context"
	"time"

	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/stream"
)

// mechanism is what senders of packets and of TCP streams have in common.
type mechanism interface {
	Name() string
	Remarks() []string
	Uncertainty() map[dispatch.Source]time.Duration
	Close() error
}

// open opens a mechanism, and returns what sends the job by it.
func open(ctx context.Context, options Options, job *send.Job) (mechanism, func(context.Context, func(dispatch.Record)) error, error) {
	if options.Stream {
		s, err := stream.Open(ctx, options.Namespace, options.Device, options.Flows, options.FixedPorts)
		if err != nil {
			return nil, nil, err
		}
		return s, func(ctx context.Context, report func(dispatch.Record)) error {
			return s.Send(ctx, send.DefaultDelay, job.Schedule, report)
		}, nil
	}
	s, err := dispatch.Open(dispatch.Options{
		Device: options.Device, Namespace: options.Namespace, Mechanism: options.Mechanism, Sequential: options.Sequential,
		Lead: options.Lead, DropLate: options.DropLate, NoDriver: options.NoDriver,
	})
	if err != nil {
		return nil, nil, err
	}
	return s, func(ctx context.Context, report func(dispatch.Record)) error { return send.Run(ctx, s, *job, report) }, nil
}
