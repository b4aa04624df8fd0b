package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
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

// TestCompressedBodyIsAccountedFor as what it can have decompressed.
func TestCompressedBodyIsAccountedFor(t *testing.T) {
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		t.Run(name, func(t *testing.T) {
			b := &budget{share: 1 << 20, exceeded: func(string, error) {}, of: map[originator]int64{}}
			held := &hold{budget: b, of: []originator{{"token a", true}}}
			packed := gzipped(t, strings.Repeat("x", 100_000))
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(packed))
			r.Header.Set(name, "gzip")
			if err := readBody(httptest.NewRecorder(), r, viewer, held); err != nil {
				t.Fatal(err)
			}
			if held.bytes < 2*100_000 {
				t.Errorf("%d bytes are accounted for", held.bytes)
			}
			b.share = held.bytes + int64(len(packed))
			r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(packed))
			r.Header.Set(name, "gzip")
			if err := readBody(httptest.NewRecorder(), r, viewer, held); connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("beyond the share: %v", err)
			}
		})
	}
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

// TestUnauthenticatedBodyIsNotDecompressed: compressed requests require a token.
func TestUnauthenticatedBodyIsNotDecompressed(t *testing.T) {
	s := newSite(t)
	client, address := s.client(t, "tls")
	request, err := http.NewRequest(http.MethodPost, address+"/pillion.v1.EnrolService/Enrol", strings.NewReader(gzipped(t, strings.Repeat(" ", unauthenticatedBodyBytes+1))))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Encoding", "gzip")
	if status, body := do(t, client, request); status != http.StatusBadRequest || !strings.Contains(body, "without a token") {
		t.Errorf("got %d %s", status, body)
	}
}
