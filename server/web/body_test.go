package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
)

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write([]byte(text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func enveloped(flags byte, message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message)))) + message
}

// TestDecompress: all forms of a compressed message are replaced, and accounted for.
func TestDecompress(t *testing.T) {
	const limit = 10_000
	packed := gzipped(t, "plain text")
	huge := gzipped(t, strings.Repeat(" ", limit+1))
	tests := []struct {
		name, kind, header, body string
		want                     string
		code                     connect.Code
	}{
		{"plain", "application/json", "", "{}", "{}", 0},
		{"unary", "application/json", "Content-Encoding", packed, "plain text", 0},
		{"stream", "application/connect+json", "Connect-Content-Encoding", enveloped(1, packed), enveloped(0, "plain text"), 0},
		{"gRPC", "application/grpc+proto", "Grpc-Encoding", enveloped(1, packed), enveloped(0, "plain text"), 0},
		{"gRPC-web", "application/grpc-web", "Grpc-Encoding", enveloped(1, packed), enveloped(0, "plain text"), 0},
		{"several", "application/grpc", "Grpc-Encoding", enveloped(0, "a") + enveloped(3, packed), enveloped(0, "a") + enveloped(2, "plain text"), 0},
		{"incomplete", "application/grpc", "Grpc-Encoding", enveloped(1, packed)[:20], enveloped(1, packed)[:20], 0},
		{"not gzip", "application/json", "Content-Encoding", "plain text", "", connect.CodeUnknown},
		{"large", "application/json", "Content-Encoding", huge, "", connect.CodeResourceExhausted},
		{"large message", "application/grpc", "Grpc-Encoding", enveloped(1, huge), "", connect.CodeResourceExhausted},
		{"large together", "application/grpc", "Grpc-Encoding", strings.Repeat(enveloped(1, gzipped(t, strings.Repeat(" ", limit/2+1))), 2), "", connect.CodeResourceExhausted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			held := newHold(1 << 20)
			header := http.Header{"Content-Type": {test.kind}}
			if test.header != "" {
				header.Set(test.header, "gzip")
			}
			if err := held.take(int64(len(test.body))); err != nil {
				t.Fatal(err)
			}
			got, err := decompress(header, []byte(test.body), limit, held)
			if string(got) != test.want || err == nil && test.code != 0 || err != nil && connect.CodeOf(err) != test.code {
				t.Errorf("got %q, %v; want %q, %v", got, err, test.want, test.code)
			}
			if held.bytes < int64(len(got)) {
				t.Errorf("%d bytes are accounted for %d", held.bytes, len(got))
			}
		})
	}
}

func newHold(share int64) *hold {
	b := &budget{share: share, exceeded: func(string, error) {}, of: map[originator]int64{}}
	return &hold{budget: b, of: []originator{{"address 192.0.2.7", true}}}
}

// FuzzDecompress: no body makes more of itself than is accounted for.
func FuzzDecompress(f *testing.F) {
	packed := gzipped(f, "plain text")
	f.Add("application/json", []byte(packed))
	f.Add("application/grpc", []byte(enveloped(1, packed)+enveloped(0, "x")))
	f.Add("application/connect+proto", []byte(enveloped(1, packed)))
	f.Add("application/grpc", []byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		header := http.Header{"Content-Type": {kind}, "Content-Encoding": {"gzip"}, "Grpc-Encoding": {"gzip"}, "Connect-Content-Encoding": {"gzip"}}
		held := newHold(1 << 20)
		if held.take(int64(len(body))) != nil {
			return
		}
		got, err := decompress(header, body, 1<<16, held)
		if len(got) > 1<<16+len(body) || int64(len(got)) > held.bytes+int64(len(body)) {
			t.Errorf("%d bytes of %d, %d are accounted for; %v", len(got), len(body), held.bytes, err)
		}
		if held.end(); held.budget.used != 0 {
			t.Errorf("%d bytes are left", held.budget.used)
		}
	})
}

// TestCompressedCalls: the protocols' own clients.
func TestCompressedCalls(t *testing.T) {
	s := newSite(t)
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "Connect JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			client, address := s.client(t, "tls")
			options = append(options, connect.WithSendGzip(), bearer("analyst"))
			unary, err := pillionv1connect.NewServerServiceClient(client, address, options...).WhoAmI(context.Background(), &pillionv1.WhoAmIRequest{})
			if err != nil || unary.GetName() != "the-analyst" {
				t.Errorf("unary: %v, %v", unary, err)
			}
			sql := "SELECT '" + strings.Repeat("x", 1<<20) + "'"
			stream, err := pillionv1connect.NewDataServiceClient(client, address, options...).Query(context.Background(), &pillionv1.QueryRequest{Sql: sql, Limit: 1})
			if err := reading(stream, err)(); err != nil {
				t.Errorf("stream: %v", err)
			}
			sql += strings.Repeat(" ", bodyBytes)
			stream, err = pillionv1connect.NewDataServiceClient(client, address, options...).Query(context.Background(), &pillionv1.QueryRequest{Sql: sql})
			if err := reading(stream, err)(); connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("beyond the limit: %v", err)
			}
		})
	}
	packed := url.QueryEscape(gzipped(t, "{}"))
	status, body := s.get(t, "tls", "/pillion.v1.ServerService/Health?connect=v1&encoding=json&compression=gzip&message="+packed, "")
	if status != http.StatusBadRequest || !strings.Contains(body, "use POST") {
		t.Errorf("compressed URL: got %d %s", status, body)
	}
	eventually(t, "all is given back", func() bool { return s.inUse() == 0 })
}

// TestUnauthenticatedBodyIsNotDecompressed beyond its limit.
func TestUnauthenticatedBodyIsNotDecompressed(t *testing.T) {
	s := newSite(t)
	client, address := s.client(t, "tls")
	request, err := http.NewRequest(http.MethodPost, address+"/pillion.v1.EnrolService/Enrol", strings.NewReader(gzipped(t, strings.Repeat(" ", unauthenticatedBodyBytes+1))))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Encoding", "gzip")
	if status, body := do(t, client, request); status != http.StatusTooManyRequests || !strings.Contains(body, "more than 65536 bytes") {
		t.Errorf("got %d %s", status, body)
	}
}
