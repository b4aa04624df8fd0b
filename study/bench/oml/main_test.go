package main

import (
	"bytes"
	"testing"

	"pillion.dev/oml/omsp"
	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/oml", commands, "../*.yaml")
}

// What is sent are rows that a reader of the protocol understands, in both encodings.
func TestEncode(t *testing.T) {
	for _, content := range []omsp.Content{omsp.Text, omsp.Binary} {
		t.Run(content.String(), func(t *testing.T) {
			head, rows, err := encode(content)
			if err != nil {
				t.Fatal(err)
			}
			r := omsp.NewReader(bytes.NewReader(append(head, rows...)), omsp.Limits{})
			if _, err := r.Header(); err != nil {
				t.Fatal(err)
			}
			var sum int64
			var tuple omsp.Tuple
			for n := range block {
				if err := r.Next(&tuple); err != nil {
					t.Fatalf("row %d: %v", n, err)
				}
				sum += tuple.Values[0].Int()
			}
			if want := int64(block * (block - 1) / 2); sum != want {
				t.Errorf("sum %d, want %d", sum, want)
			}
		})
	}
}
