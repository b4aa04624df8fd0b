package web

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	rows "pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
)

func (s *site) flows(t testing.TB, token string) pillionv1connect.FlowServiceClient {
	t.Helper()
	client, url := s.client(t, "tls")
	return pillionv1connect.NewFlowServiceClient(client, url, bearer(token))
}

// flowsRecord has a row of one second for each source, with delays of 5 ms.
func flowsRecord(t testing.TB, end time.Time, packets uint64, sources ...string) arrow.RecordBatch {
	t.Helper()
	var all []measuretest.Fields
	for _, source := range sources {
		all = append(all, measuretest.Fields{
			"time": end, "interval_ns": time.Second, "session": "s", "source": source, "packets": packets, "delay_count": packets,
			"delay_min_ns": int64(5e6), "delay_mean_ns": int64(5e6), "delay_max_ns": int64(5e6), "delay_bounds_ns": []int64{5e6}, "delay_counts": []uint64{packets},
		})
	}
	return measuretest.Record(t, &measure.Flows, all...)
}

func TestWindows(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Now = func() time.Time { return epoch } })
	response, err := s.flows(t, "viewer").Windows(t.Context(), &pillionv1.WindowsRequest{
		Selection: &pillionv1.Selection{Source: "a", Destination: "b", Session: "s", Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp", Sport: 1, Dport: 65535}, Histograms: true,
	})
	if err != nil || len(response.Windows) != 1 || response.StepMs != 5000 || response.Sampled != 3 || response.Sessions[0] != "s\uFFFD" {
		t.Fatalf("got %v, %v", response, err)
	}
	if w := response.Windows[0]; w.StartMs != epoch.UnixMilli() || w.Packets != 7 || !math.IsNaN(w.Delay.P50Ns) || !math.IsNaN(w.Ipdv.MinNs) {
		t.Errorf("got %v", w)
	}
	got := s.archive.asked[0].(archive.Windows)
	want := archive.Windows{
		Selection: archive.Selection{Source: "a", Destination: "b", Session: "s", Flow: rows.Flow{Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp", Sport: 1, Dport: 65535}},
		From:      epoch.Add(-time.Hour), To: epoch, Points: 300,
	}
	if got != want {
		t.Errorf("asked %+v, want %+v", got, want)
	}
}

func TestListFlows(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Now = func() time.Time { return epoch } })
	response, err := s.flows(t, "viewer").ListFlows(t.Context(), &pillionv1.ListFlowsRequest{})
	if err != nil || len(response.Flows) != 1 || response.Found != math.MaxUint32 {
		t.Fatalf("got %v, %v", response, err)
	}
	if f := response.Flows[0]; f.Src != "192.0.2.1" || f.Proto != "udp\uFFFD" || f.Dport != 53 || f.Total.Packets != 7 || !f.Last.AsTime().Equal(epoch) {
		t.Errorf("got %v", f)
	}
	got := s.archive.asked[0].(archive.Flows)
	if want := (archive.Flows{From: epoch.Add(-time.Hour), To: epoch, Granularity: "flow", Order: "packets", Limit: 100}); !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v, want %+v", got, want)
	}
}

// TestFlowsNamePods: a pod is named according to the agent at its end of the flow, if the caller may see that agent.
func TestFlowsNamePods(t *testing.T) {
	_, option := scopedToken("scoped-viewer", "a")
	s := newSite(t, option)
	for _, row := range []struct {
		name, token string
		selection   *pillionv1.Selection
		src, dst    string
	}{
		{"any agents", "viewer", nil, "shop/cart-0 on a.example held=true", "shop/db\uFFFD on b.example held=false"},
		{"agents at both ends", "viewer", &pillionv1.Selection{Source: "a", Destination: "b"}, "shop/cart-0 on a.example held=true", "shop/db\uFFFD on b.example held=false"},
		{"other agents", "viewer", &pillionv1.Selection{Source: "b", Destination: "a"}, "", ""},
		{"agent out of the scope", "scoped", nil, "shop/cart-0 on a.example held=true", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			response, err := s.flows(t, row.token).ListFlows(t.Context(), &pillionv1.ListFlowsRequest{Selection: row.selection})
			if err != nil || len(response.Flows) != 1 {
				t.Fatalf("got %v, %v", response, err)
			}
			text := func(p *pillionv1.Pod) string {
				if p == nil {
					return ""
				}
				if !p.Seen.AsTime().Equal(epoch) {
					t.Errorf("seen %v", p.Seen)
				}
				return fmt.Sprintf("%s/%s on %s held=%v", p.Namespace, p.Name, p.Node, p.Held)
			}
			if f := response.Flows[0]; text(f.SrcPod) != row.src || text(f.DstPod) != row.dst {
				t.Errorf("got %v and %v, want %q and %q", f.SrcPod, f.DstPod, row.src, row.dst)
			}
		})
	}
}

// TestFlowsOfPods: a search finds addresses by the names that the answer would have.
func TestFlowsOfPods(t *testing.T) {
	_, option := scopedToken("scoped-viewer", "a")
	s := newSite(t, option)
	for _, row := range []struct {
		name, token, search string
		selection           *pillionv1.Selection
		src, dst            []string
	}{
		{"any agents", "viewer", "cart", nil, []string{"192.0.2.1"}, []string{"192.0.2.1"}},
		{"agents at both ends", "viewer", "cart", &pillionv1.Selection{Source: "a", Destination: "b"}, []string{"192.0.2.1"}, nil},
		{"other agents", "viewer", "cart", &pillionv1.Selection{Source: "b", Destination: "b"}, nil, nil},
		{"agent out of the scope", "scoped", "db", nil, nil, nil},
		{"no search", "viewer", "", nil, nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := s.flows(t, row.token).ListFlows(t.Context(), &pillionv1.ListFlowsRequest{Selection: row.selection, Search: row.search}); err != nil {
				t.Fatal(err)
			}
			asked := s.archive.asked[len(s.archive.asked)-1].(archive.Flows)
			if asked.Search != row.search || !reflect.DeepEqual(asked.SearchSrc, row.src) || !reflect.DeepEqual(asked.SearchDst, row.dst) {
				t.Errorf("asked %+v, want %v and %v", asked, row.src, row.dst)
			}
		})
	}
}

func TestTrafficMatrix(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Now = func() time.Time { return epoch } })
	c := s.flows(t, "viewer")
	response, err := c.TrafficMatrix(t.Context(), &pillionv1.TrafficMatrixRequest{Granularity: "prefix", ByProtocol: true})
	if err != nil || len(response.Volumes) != 1 || response.Found != 1 || response.UnreadPackets != 2 || response.Total.Packets != 9 {
		t.Fatalf("got %v, %v", response, err)
	}
	if v := response.Volumes[0]; v.Src != "192.0.2.0/24" || v.Proto != "udp\uFFFD" || v.Packets != 7 || v.EstimatedBytes != 700 || v.Scaling != "lower_bound" {
		t.Errorf("got %v", v)
	}
	got := s.archive.asked[0].(archive.Volumes)
	if want := (archive.Volumes{From: epoch.Add(-time.Hour), To: epoch, Granularity: "host-protocol", Limit: volumesRead}); got != want {
		t.Errorf("asked %+v, want %+v", got, want)
	}
	for name, request := range map[string]*pillionv1.TrafficMatrixRequest{
		"granularity": {Granularity: "x"}, "order": {Order: "p50"}, "limit": {Limit: 50_001}, "prefix": {PrefixIpv4: 33}, "prefix of IPv6": {PrefixIpv6: 129},
		"label": {Label: strings.Repeat("x", 300)}, "selection": {Selection: &pillionv1.Selection{Sport: 1 << 17}}, "range": {From: timestamppb.New(epoch), To: timestamppb.New(epoch)},
	} {
		if _, err := c.TrafficMatrix(t.Context(), request); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFlowsRefuse(t *testing.T) {
	s := newSite(t)
	c := s.flows(t, "viewer")
	long := strings.Repeat("x", 300)
	past := &timestamppb.Timestamp{Seconds: -1 << 40}
	windows := func(r *pillionv1.WindowsRequest) error { _, err := c.Windows(t.Context(), r); return err }
	list := func(r *pillionv1.ListFlowsRequest) error { _, err := c.ListFlows(t.Context(), r); return err }
	watch := func(r *pillionv1.WatchWindowsRequest) error {
		stream, err := c.WatchWindows(t.Context(), r)
		if err == nil && !stream.Receive() {
			err = stream.Err()
		}
		return err
	}
	pairs := func(r *pillionv1.WatchPairsRequest) error {
		stream, err := c.WatchPairs(t.Context(), r)
		if err == nil && !stream.Receive() {
			err = stream.Err()
		}
		return err
	}
	selection := func(source, destination string) *pillionv1.Selection {
		return &pillionv1.Selection{Source: source, Destination: destination}
	}
	for name, err := range map[string]error{
		"points":          windows(&pillionv1.WindowsRequest{Points: 4001}),
		"range":           windows(&pillionv1.WindowsRequest{From: timestamppb.New(epoch), To: timestamppb.New(epoch)}),
		"before 1970":     windows(&pillionv1.WindowsRequest{To: past}),
		"long text":       windows(&pillionv1.WindowsRequest{Selection: selection(long, "")}),
		"zero byte":       windows(&pillionv1.WindowsRequest{Selection: selection("", "a\x00")}),
		"port":            windows(&pillionv1.WindowsRequest{Selection: &pillionv1.Selection{Sport: 65536}}),
		"granularity":     list(&pillionv1.ListFlowsRequest{Granularity: "x"}),
		"order":           list(&pillionv1.ListFlowsRequest{Order: "x"}),
		"limit":           list(&pillionv1.ListFlowsRequest{Limit: 1001}),
		"search":          list(&pillionv1.ListFlowsRequest{Search: long}),
		"flows range":     list(&pillionv1.ListFlowsRequest{From: timestamppb.New(epoch.Add(1)), To: timestamppb.New(epoch)}),
		"no source":       watch(&pillionv1.WatchWindowsRequest{Selection: selection("", "b")}),
		"no destination":  watch(&pillionv1.WatchWindowsRequest{Selection: selection("a", "")}),
		"no selection":    watch(&pillionv1.WatchWindowsRequest{}),
		"step":            watch(&pillionv1.WatchWindowsRequest{Selection: selection("a", "b"), StepMs: 99}),
		"negative step":   watch(&pillionv1.WatchWindowsRequest{Selection: selection("a", "b"), StepMs: math.MinInt64}),
		"long step":       watch(&pillionv1.WatchWindowsRequest{Selection: selection("a", "b"), StepMs: math.MaxInt64}),
		"history":         pairs(&pillionv1.WatchPairsRequest{History: 61}),
		"session of text": pairs(&pillionv1.WatchPairsRequest{Session: long}),
	} {
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.flows(t, "unknown").Windows(t.Context(), &pillionv1.WindowsRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if len(s.archive.asked) != 0 {
		t.Errorf("asked %v", s.archive.asked)
	}
}

// TestWatchWindows: windows are sent as rows arrive; the archive is queried once for the
// rows that they lack; a reader that disconnects is removed.
func TestWatchWindows(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.flows(t, "viewer").WatchWindows(ctx, &pillionv1.WatchWindowsRequest{
		Selection: &pillionv1.Selection{Source: "a", Destination: "b"}, StepMs: 10_000,
	})
	if err != nil || !stream.Receive() || len(stream.Msg().Windows) != 0 || stream.Msg().StepMs != 10_000 {
		t.Fatalf("begin: %v, %v", err, stream.Err())
	}
	end := epoch.Truncate(10 * time.Second).Add(15 * time.Second)
	sum := uint64(0)
	for i := range 3 {
		publish(s, "b", &measure.Flows, flowsRecord(t, end.Add(time.Duration(i)*time.Second), 5, "a", "other"))
		publish(s, "other", &measure.Flows, flowsRecord(t, end, 100, "a"))
		sum += 5
		for got := uint64(0); got != sum; {
			if !stream.Receive() {
				t.Fatal(stream.Err())
			}
			for _, w := range stream.Msg().Windows {
				got = w.Packets
				if w.StartMs != end.Add(-5*time.Second).UnixMilli() || got > sum {
					t.Errorf("got %v", w)
				}
			}
		}
	}
	s.archive.mutex.Lock()
	asked := s.archive.asked
	s.archive.mutex.Unlock()
	if len(asked) != 1 || asked[0].(archive.Windows).Session != "s" || !asked[0].(archive.Windows).Before.Equal(end) {
		t.Errorf("asked %v", asked)
	}
	cancel()
	eventually(t, "the reader leaves", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2
	})
}

// TestSiteMatrix: figures by site, and of the pairs of hosts of two sites; without sites there are none.
func TestSiteMatrix(t *testing.T) {
	s := newSite(t, func(o *Options) { o.SiteLabel = "rack" })
	s.SetSites(map[string]string{"a": "north", "b": "south", "c": ""})
	eventually(t, "pairs follow", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2
	})
	publish(s, "b", &measure.Flows, flowsRecord(t, time.Now(), 7, "a", "c"))
	c := s.flows(t, "viewer")
	ask := func(hosts *pillionv1.SitePair) *pillionv1.SiteMatrixResponse {
		t.Helper()
		answer, err := c.SiteMatrix(t.Context(), &pillionv1.SiteMatrixRequest{Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	north := &pillionv1.SitePair{Source: "north", Destination: "south"}
	eventually(t, "the rows are published", func() bool {
		return len(ask(north).Hosts) == 1 && len(ask(nil).Pairs) == 2 && ask(nil).Pairs[1].Pairs == 1
	})
	answer := ask(nil)
	if answer.Label != "rack" || len(answer.Sites) != 3 || answer.Sites[1].Name != "north" || answer.Sites[1].Agents != 1 || len(answer.Hosts) != 0 {
		t.Errorf("got %v", answer)
	}
	if p := answer.Pairs[1]; p.Source != "north" || p.Destination != "south" || p.Total.Packets != 7 || p.Total.Delay.Count != 7 || p.Worst.Source != "a" {
		t.Errorf("got %v", p)
	}
	if _, err := c.SiteMatrix(t.Context(), &pillionv1.SiteMatrixRequest{Hosts: &pillionv1.SitePair{Source: strings.Repeat("x", 300)}}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a long site: %v", err)
	}
}

// TestWatchPairs: figures of a second are sent when it is over, another reader gets the
// history, and both end with the server.
func TestWatchPairs(t *testing.T) {
	s := newSite(t)
	watch := func() *connect.ServerStreamForClient[pillionv1.WatchPairsResponse] {
		stream, err := s.flows(t, "viewer").WatchPairs(t.Context(), &pillionv1.WatchPairsRequest{})
		if err != nil || !stream.Receive() {
			t.Fatalf("begin: %v, %v", err, stream.Err())
		}
		return stream
	}
	eventually(t, "pairs follow", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2
	})
	first := watch()
	if len(first.Msg().Sources) != 0 {
		t.Errorf("begins with %v", first.Msg())
	}
	end := time.Now()
	publish(s, "b", &measure.Flows, flowsRecord(t, end, 5, "a", "c\xff", ""))
	check := func(stream *connect.ServerStreamForClient[pillionv1.WatchPairsResponse]) {
		m := stream.Msg()
		if m.StartMs != end.Add(-time.Second/2).Truncate(time.Second).UnixMilli() || strings.Join(m.Agents, " ") != "a b c\uFFFD" || len(m.Sources) != 2 || m.Destinations[1] != 1 ||
			m.Packets[0] != 5 || m.P50Ns[0] != 5_000_000 || !math.IsNaN(float64(m.ClockErrorNs[0])) {
			t.Errorf("got %v", m)
		}
	}
	if !first.Receive() {
		t.Fatal(first.Err())
	}
	check(first)
	second := watch()
	check(second)
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
		defer cancel()
		closed <- s.Close(ctx)
	}()
	for _, stream := range []*connect.ServerStreamForClient[pillionv1.WatchPairsResponse]{first, second} {
		if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
			t.Errorf("got %v", stream.Err())
		}
		stream.Close()
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
