package main

import (
	"testing"

	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/clickhouse", commands, "../clickhouse-query.yaml", "../clickhouse-insert.yaml")
}
