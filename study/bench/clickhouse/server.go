package main

import (
	"context"
	"os"
	"strings"

	"pillion.dev/archive/clickhouse"
	"pillion.dev/study/bench/fleet"
)

const database = "bench"

// server is a ClickHouse server and its archive.
type server struct{ *fleet.ClickHouse }

// open opens the archive.
func (s *server) open(options clickhouse.Options) (*clickhouse.Archive, error) {
	return clickhouse.Open(strings.TrimPrefix(s.Cluster.URL(database), "clickhouse:"), options)
}

// archive opens the archive for the length of work.
func (s *server) archive(options clickhouse.Options, work func(*clickhouse.Archive) error) error {
	a, err := s.open(options)
	if err != nil {
		return err
	}
	err = work(a)
	if failed := a.Close(); err == nil {
		err = failed
	}
	return err
}

// with starts a server in a folder, or in a temporary one, for the length of work.
func with(ctx context.Context, folder string, work func(*server) error) error {
	if folder == "" {
		temporary, err := os.MkdirTemp("", "clickhouse-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		folder = temporary
	}
	s, err := fleet.StartClickHouse(ctx, folder)
	if err != nil {
		return err
	}
	defer s.Stop()
	return work(&server{s})
}
