package main

import (
	"flag"
	"io"
	"testing"
	"time"
)

func TestInvalidSettings(t *testing.T) {
	for _, arguments := range [][]string{{"-pairs", "0"}, {"-pairs", "1001"}, {"-packets", "0"}, {"-scrapes", "0"}, {"-length", "1s"}} {
		f := flag.NewFlagSet("metrics", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		run := command(f)
		if err := f.Parse(arguments); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t.Context()); err == nil {
			t.Errorf("%q is accepted", arguments)
		}
	}
}

func TestRows(t *testing.T) {
	s := settings{pairs: 3, packets: 10, scrapes: 1, length: 5 * time.Second}
	if rows := s.rows(); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
}
