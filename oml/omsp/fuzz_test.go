package omsp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
)

// FuzzReader: whatever a client sends, reading ends, memory stays within the limits, and
// every row is unchanged after it is written and read again.
func FuzzReader(f *testing.F) {
	packet, _ := hex.DecodeString(smallBinary)
	header := "protocol: 4\ndomain: d\nstart-time: 1\nsender-id: s\napp-name: a\nschema: " + smallSchema + "\ncontent: "
	f.Add([]byte(header + "text\n\n" + smallText + smallText[:30]))
	f.Add([]byte(header + "binary\n\n" + string(packet) + "\xaa" + string(packet)))
	f.Add([]byte("protocol:1\ncontent:binary\n\n\xaa\xaa\x0200")) // truncated within a long head
	f.Add([]byte("protocol: 4\n\n0\t0\t1\t.\tschema\t3 x a:[int32]\n1\t3\t1\t2 5 6\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := NewReader(bytes.NewReader(sent), Limits{Line: 4096, Header: 4096, Schemas: 8, Fields: 16})
		h, err := r.Header()
		if err != nil {
			return
		}
		var tuple Tuple
		for range 10000 {
			err := r.Next(&tuple)
			if err == io.EOF || err != nil && !errors.Is(err, ErrTuple) {
				return
			}
			if err == nil {
				again(t, h.Content, &tuple)
			}
		}
		t.Error("reading does not end")
	})
}

// again writes a tuple and reads it back.
func again(t *testing.T, content Content, tuple *Tuple) {
	t.Helper()
	wire, err := Append(nil, content, tuple)
	if err != nil {
		if content == Text {
			t.Fatalf("write %+v: %v", tuple, err)
		}
		return // too large for a packet
	}
	r := NewReader(bytes.NewReader(wire), Limits{})
	r.header.Content = content
	if err := r.define(tuple.Schema); err != nil && tuple.Schema.Index != 0 {
		t.Fatal(err)
	}
	r.near[0] = &Metadata
	var second Tuple
	if err := r.Next(&second); err != nil && !tuple.defines() {
		t.Fatalf("read %q again: %v", wire, err)
	}
	for i := range tuple.Values {
		a, b := &tuple.Values[i], &second.Values[i]
		if !a.Equal(b) && !(content == Binary && a.Type == Double) { // 31 bits
			t.Errorf("value %d was %+v, is %+v, by %q", i, a, b, wire)
		}
	}
}

// FuzzSchema: a schema is unchanged after it is written and read again.
func FuzzSchema(f *testing.F) {
	f.Add(smallSchema)
	f.Add("0 _experiment_metadata subject:string key:string value:string ")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchema(text)
		if err != nil {
			return
		}
		if again, err := ParseSchema(s.String()); err != nil || !again.Same(s) || again.Index != s.Index {
			t.Errorf("%q became %q, %v", text, s.String(), err)
		}
	})
}
