package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
	"pillion.dev/internal/test/hang"
	"pillion.dev/server/authority"
)

// endlessArchive answers no question before its context ends.
type endlessArchive struct {
	*fakeArchive
	asked chan struct{}
}

func (a endlessArchive) Export(ctx context.Context, _ archive.Export, _ func(arrow.RecordBatch) error) error {
	a.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (a endlessArchive) Query(ctx context.Context, _ string, _ []any, _ archive.Limits, _ func(arrow.RecordBatch) error) error {
	return a.Export(ctx, archive.Export{}, nil)
}

// TestCallsEndWithTheirToken: whatever lasts ends when its token is revoked or expires, or loses its role or a part of its scope.
func TestCallsEndWithTheirToken(t *testing.T) {
	lasting := map[string]func(context.Context, *http.Client, string) func() error{
		"Tail": func(ctx context.Context, client *http.Client, url string) func() error {
			stream, err := pillionv1connect.NewDataServiceClient(client, url, bearer("scoped")).Tail(ctx, &pillionv1.TailRequest{})
			return reading(stream, err)
		},
		"WatchPairs": func(ctx context.Context, client *http.Client, url string) func() error {
			stream, err := pillionv1connect.NewFlowServiceClient(client, url, bearer("scoped")).WatchPairs(ctx, &pillionv1.WatchPairsRequest{})
			return reading(stream, err)
		},
		"WatchWindows": func(ctx context.Context, client *http.Client, url string) func() error {
			stream, err := pillionv1connect.NewFlowServiceClient(client, url, bearer("scoped")).WatchWindows(ctx,
				&pillionv1.WatchWindowsRequest{Selection: &pillionv1.Selection{Source: "a", Destination: "b"}})
			return reading(stream, err)
		},
		"Export": func(ctx context.Context, client *http.Client, url string) func() error {
			stream, err := pillionv1connect.NewDataServiceClient(client, url, bearer("scoped")).Export(ctx, &pillionv1.ExportRequest{Stream: "numbers", Format: "csv"})
			return reading(stream, err)
		},
		"Query": func(ctx context.Context, client *http.Client, url string) func() error {
			stream, err := pillionv1connect.NewDataServiceClient(client, url, bearer("scoped")).Query(ctx, &pillionv1.QueryRequest{Sql: "SELECT 1"})
			return reading(stream, err)
		},
	}
	losses := []struct {
		name   string
		change func(*authority.Token)
		want   connect.Code
	}{
		{"revoked", func(k *authority.Token) { k.Revoked = true }, connect.CodeUnauthenticated},
		{"lower role", func(k *authority.Token) { k.Role = "viewer" }, connect.CodePermissionDenied},
		{"scope", func(k *authority.Token) { k.Scope = []string{"a"} }, connect.CodeUnavailable},
	}
	for call, begin := range lasting {
		for _, loss := range losses {
			t.Run(call+" "+loss.name, func(t *testing.T) {
				t.Parallel()
				tokens := &scopedAuthority{token: authority.Token{Name: "the-scoped", Role: "analyst"}}
				asked := make(chan struct{}, 1)
				s := newSite(t, func(o *Options) {
					o.Authority, o.Archive = tokens, endlessArchive{o.Archive.(*fakeArchive), asked}
				})
				ctx, cancel := context.WithTimeout(t.Context(), hang.Limit)
				defer cancel()
				client, url := s.client(t, "tls")
				ended := make(chan error, 1)
				go func() { ended <- begin(ctx, client, url)() }()
				eventually(t, "the call is in progress", func() bool { return s.inProgress() == 1 })
				tokens.mutex.Lock()
				loss.change(&tokens.token)
				tokens.mutex.Unlock()
				if err := <-ended; connect.CodeOf(err) != loss.want {
					t.Errorf("ended with %v, want %v", err, loss.want)
				}
			})
		}
	}
}

func (s *site) inProgress() int {
	s.calls.mutex.Lock()
	defer s.calls.mutex.Unlock()
	return len(s.calls.open)
}

// reading reads a stream to its end.
func reading[M any](stream *connect.ServerStreamForClient[M], err error) func() error {
	return func() error {
		if err != nil {
			return err
		}
		for stream.Receive() {
		}
		return errors.Join(stream.Err(), stream.Close())
	}
}

// TestUnreadDownloadEndsWithItsToken: also a call that waits for a client which does not read.
func TestUnreadDownloadEndsWithItsToken(t *testing.T) {
	tokens := &scopedAuthority{token: authority.Token{Name: "the-scoped", Role: "viewer"}}
	s := newSite(t, func(o *Options) { o.Authority, o.Archive = tokens, floodingArchive{o.Archive.(*fakeArchive)} })
	for _, protocol := range []string{"tls", "tls1", "http1"} {
		tokens.mutex.Lock()
		tokens.token.Revoked = false
		tokens.mutex.Unlock()
		client, url := s.client(t, protocol)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/export?stream=numbers", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer scoped")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		tokens.mutex.Lock()
		tokens.token.Revoked = true
		tokens.mutex.Unlock()
		eventually(t, protocol+": the export ends", func() bool { return s.inProgress() == 0 })
		if _, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Errorf("%s: the client does not notice the truncation", protocol)
		}
		response.Body.Close()
	}
}

// floodingArchive has rows without end, and does not look whether its context has ended.
type floodingArchive struct{ *fakeArchive }

func (a floodingArchive) Export(_ context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	for until := time.Now().Add(hang.Limit); time.Now().Before(until); {
		if err := a.fakeArchive.Export(context.Background(), question, rows); err != nil {
			return err
		}
	}
	return errors.New("nobody ended it")
}

// TestIsSlow: a client is slow by what it takes while the server waits for it, not by how little there is to send.
func TestIsSlow(t *testing.T) {
	const span = 30 * time.Second
	for _, row := range []struct {
		name   string
		sent   int64
		waited time.Duration
		want   bool
	}{
		{"nothing to send", 0, 0, false},
		{"little to send", 1000, time.Second, false},
		{"3.2 KB/s", 96_000, span, true},
		{"nothing taken", 0, span, true},
		{"a little slower", leastRate*30 - 1, span, true},
		{"just fast enough", leastRate * 30, span, false},
		{"fast in half of the time", leastRate * 15, span / 2, false},
		{"hardly waited for", 0, span/2 - 1, false},
	} {
		if got := isSlow(row.sent, row.waited, span); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// TestCallsHaveALimit: of time, streams another one than downloads.
func TestCallsHaveALimit(t *testing.T) {
	for path, limit := range map[string]time.Duration{"/export": downloadTime, pillionv1connect.DataServiceTailProcedure: streamTime} {
		one := &call{path: path, began: epoch, measured: epoch}
		if err := one.overdue(epoch.Add(limit), slowSpan); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := one.overdue(epoch.Add(limit+1), slowSpan); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%s after its limit: %v", path, err)
		}
	}
}

// TestSlowReadersDoNotHoldExportsBack: four downloads that nobody reads leave a slot to operators, and end.
func TestSlowReadersDoNotHoldExportsBack(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Archive = floodingArchive{o.Archive.(*fakeArchive)} })
	measureOver := func(span time.Duration) {
		s.calls.mutex.Lock()
		defer s.calls.mutex.Unlock()
		s.calls.slowSpan = span
	}
	measureOver(hang.Limit)
	client, url := s.client(t, "tls1")
	export := func(token string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/export?stream=numbers", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	served := 0
	for _, token := range []string{"viewer", "viewer", "analyst", "analyst"} {
		if export(token).StatusCode == http.StatusOK {
			served++
		}
	}
	if response := export("operator"); served != exportsAtOnce-1 || response.StatusCode != http.StatusOK {
		t.Errorf("%d slow readers, then an operator's export: %s", served, response.Status)
	}
	measureOver(reviewEvery)
	eventually(t, "all end", func() bool { return s.inProgress() == 0 })
	for _, c := range s.sink.all() {
		if strings.HasPrefix(c.Outcome, "unavailable: the client takes fewer than 16384 bytes per second") {
			served--
		}
	}
	if served > 0 {
		t.Errorf("%d of the slow readers are not in the audit: %+v", served, s.sink.all())
	}
}
