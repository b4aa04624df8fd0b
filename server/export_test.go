package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
)

// RunMortal is Run for a server that dies: die cuts it off the bus, so that it can do no more than a
// dead one. Its end reports what it could not finish.
func RunMortal(ctx context.Context, config Config, page fs.FS, log *slog.Logger, ready func(w Welcome, die func())) error {
	config, err := config.Complete()
	if err != nil {
		return err
	}
	s := &server{config: config, page: page, log: log}
	if err := s.open(ctx); err != nil {
		return errors.Join(err, s.close())
	}
	ready(s.welcome(), s.bus.Close)
	return errors.Join(s.serve(ctx), s.close())
}
