package web

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestLevelFile(t *testing.T) {
	s := newSite(t)
	month := time.Now().UTC().AddDate(0, -1, 0).Format("2006-01")
	for _, test := range []struct {
		name, query string
		status      int
		want        string
	}{
		{"html", "month=" + month, 200, "<title>Service levels, "},
		{"targets are in it", "month=" + month + "&availability=0.999&delay_ns=20000000&loss=0.001&quantile=0.9&scope=site%3Dx", 200, "90 % of packets within"},
		{"csv has its header", "format=csv&quantile=0.5&month=" + month, 200, "source,destination,availability,availability_verdict,up_minutes,down_minutes,silent_minutes,delay_p50_ns"},
		{"no month", "format=csv", 400, "name it as YYYY-MM"},
		{"a month that is none", "month=2026-13", 400, "use YYYY-MM"},
		{"a month to come", "month=2100-01", 400, "in the future"},
		{"a month beyond all", "month=9999-01", 400, "use YYYY-MM"},
		{"an unknown format", "format=pdf&month=" + month, 400, "use csv or html"},
		{"an unknown parameter", "target=1&month=" + month, 400, "unknown parameter"},
		{"no number", "loss=much&month=" + month, 400, "loss"},
		{"no share", "loss=2&month=" + month, 400, "use a share from 0 to 1"},
		{"no selector", "scope=%2C%2C&month=" + month, 400, "scope"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body := s.get(t, "tls", "/service-levels?"+test.query, "viewer")
			if status != test.status || !strings.Contains(body, test.want) {
				t.Errorf("got %d %q, want %d %q", status, body, test.status, test.want)
			}
		})
	}
	if status, _ := s.get(t, "tls", "/service-levels?month="+month, ""); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	_, option := scopedToken("scoped-viewer", "a", "a:b")
	if _, body := newSite(t, option).get(t, "tls", "/service-levels?month="+month, "scoped"); !strings.Contains(body, "Limited to what the token sees: a, a:b<") {
		t.Errorf("with a scope: %q", body)
	}
}

// FuzzLevelQuery: what is accepted names a month and a format that exist.
func FuzzLevelQuery(f *testing.F) {
	f.Add("month=2026-11&format=csv&scope=a&scope=b&availability=0.99&loss=1e-3&delay_ns=1&quantile=0.5&outage=0.2&session=s")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		request, format, err := levelQuery(query)
		if err == nil && (request.GetFrom() == nil || !request.GetFrom().AsTime().Before(request.GetTo().AsTime()) || levelFormats[format].write == nil) {
			t.Errorf("%q is read as %v, %q", text, request, format)
		}
	})
}
