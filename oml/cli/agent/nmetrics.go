package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	metrics "pillion.dev/agent/host"
	"pillion.dev/agent/report"
	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/measure"
)

type nmetricsCmd struct {
	agent.ReportFlags
	Interval time.Duration `default:"5s" placeholder:"DURATION" help:"Time between readings, 10ms or more (${default})."`
	Process  []string      `placeholder:"NAME" help:"Report processes with this ID or name, in which * stands for any text; repeatable."`
	Count    int           `placeholder:"N" help:"Stop after N readings."`
	JSON     bool          `name:"json" help:"Print JSON, one object per line."`
}

// Run samples until it is interrupted.
func (c *nmetricsCmd) Run(ctx context.Context) error {
	if c.Interval < 10*time.Millisecond || c.Count < 0 {
		return fmt.Errorf("sample host: %w: an interval of 10ms or more, and a count of 0 or more", command.ErrUsage)
	}
	if err := metrics.CheckProcesses(c.Process); err != nil {
		return err
	}
	to := report.View(os.Stdout, c.JSON)
	if c.OML != "" && !c.JSON {
		var err error
		if to, err = c.Open(c.OML, "nmetrics", metrics.Nmetrics()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	readings := 0
	var failed error
	sampler := metrics.Sampler{
		Interval: c.Interval, Points: metrics.Nmetrics(), Processes: c.Process, OtherClock: true,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Sink: func(schema *measure.Schema, samples []measure.Sample) error {
			for _, sample := range samples {
				if err := to.Put(schema, sample); err != nil {
					failed = err
					cancel()
					return err
				}
			}
			return nil
		},
		Done: func() {
			if readings++; readings == c.Count {
				cancel()
			}
		},
	}
	return errors.Join(sampler.Run(ctx), failed, agent.Finish(to))
}
