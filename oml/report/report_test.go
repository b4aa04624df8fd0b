package report

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
)

var schema = &measure.Schema{Name: "app_point", Fields: []measure.Field{
	measure.TimeField, {Name: "id", Type: measure.Uint64, Unit: "guid"}, {Name: "big", Type: measure.Uint64}, {Name: "small", Type: measure.Int32},
	{Name: "x", Type: measure.Float64}, {Name: "yes", Type: measure.Bool}, {Name: "text", Type: measure.String},
	{Name: "raw", Type: measure.Binary}, {Name: "list", Type: measure.Int64List},
}}

func full(at time.Time) measure.Sample {
	return measure.Sample{
		measure.TimeValue(at), measure.Uint64Value(7), measure.Uint64Value(1 << 63), measure.Int32Value(-3), measure.Float64Value(0.1),
		measure.BoolValue(true), measure.StringValue("a\tb"), measure.BinaryValue([]byte{1}), measure.Int64ListValue([]int64{-1, 2}),
	}
}

func nulls(at time.Time) measure.Sample {
	return append(measure.Sample{measure.TimeValue(at)}, make(measure.Sample, len(schema.Fields)-1)...)
}

const (
	schemaLine = "schema: 1 app_point id:guid big:uint64 small:int32 x:double yes:bool text:string raw:blob list:[int64]\n"
	fullLine   = "\t1\t1\t7\t9223372036854775808\t-3\t0.1\tT\ta\\tb\tAQ==\t2 -1 2\n"
	nullLine   = "\t1\t2\t0\t0\t0\tnan\tF\t\t\t0\n"
)

func put(t *testing.T, r report.Report, start time.Time) {
	t.Helper()
	err := errors.Join(r.Note("key", "a value"), r.Put(schema, full(start.Add(1500*time.Millisecond))), r.Put(schema, nulls(start.Add(-time.Second))))
	if err != nil {
		t.Fatal(err)
	}
}

// TestFile: the file is valid OMSP.
func TestFile(t *testing.T) {
	var out bytes.Buffer
	f, err := newFile(report.Options{App: "app", Domain: "d", Sender: "s", Points: []*measure.Schema{schema}}, &out, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, f.start)
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"domain: d\n", "sender-id: s\napp-name: app\n", schemaLine, "\t0\t1\t.\tkey\ta value\n", "\n1.500000" + fullLine, "\n-1.000000" + nullLine} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}
	from := omsp.NewReader(&out, omsp.Limits{})
	if _, err := from.Header(); err != nil {
		t.Fatal(err)
	}
	var tuple omsp.Tuple
	n := 0
	for ; from.Next(&tuple) == nil; n++ {
	}
	if n != 3 {
		t.Errorf("%d readable tuples", n)
	}
}

// collector receives everything from one client.
func collector(t *testing.T) (address string, received <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	texts := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		texts <- string(text)
	}()
	return listener.Addr().String(), texts
}

func TestCollector(t *testing.T) {
	address, received := collector(t)
	r, err := Open(report.Options{URI: "tcp://" + address, App: "app", Domain: "d?token=se%20cret", Sender: "s", Points: []*measure.Schema{schema}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, r, time.Now())
	if err := errors.Join(r.Room(t.Context()), r.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	text := <-received
	for _, part := range []string{"domain: d\n", "pillion-token: se cret\n", strings.TrimPrefix(schemaLine, "schema: "), fullLine, nullLine, "\tkey\ta value\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// TestUnreachableCollector: an unreachable collector is reported within the timeout.
func TestUnreachableCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	r, err := Open(report.Options{URI: listener.Addr().String(), App: "app", Points: []*measure.Schema{schema}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, r, time.Now())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Close(ctx); err == nil || !strings.Contains(err.Error(), "3 tuples") {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	for uri, want := range map[string]string{
		"noc": "noc:3003", "noc:4": "noc:4", "tcp:noc": "noc:3003", "tcp://noc:4": "noc:4", "tcp:[::1]": "[::1]:3003", "[::1]:4": "[::1]:4", "::1": "[::1]:3003",
		"": "", "tcp:": "", "http://noc/": "", "a:b:c": "", "file:": "", "noc:": "",
	} {
		got, err := parseAddress(uri)
		if got != want || (want == "") != errors.Is(err, report.ErrURI) {
			t.Errorf("%q: %q, %v", uri, got, err)
		}
	}
}

func TestView(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		json bool
		want []string
	}{
		"text": {false, []string{"key: a value\n", " app_point id=7 big=9223372036854775808 small=-3 x=0.1 yes=true text=a\tb"}},
		"json": {true, []string{`{"note":"key","value":"a value"}`, `"point":"app_point"`, `"big":9223372036854775808`, `"raw":"AQ=="`, `"x":null`, `"time":"2026-01-02T03:04:06.5Z"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			put(t, report.View(&out, test.json), at)
			for _, part := range test.want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("%q is not in\n%s", part, out.String())
				}
			}
		})
	}
}
