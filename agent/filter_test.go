package agent

import (
	"testing"

	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// What a session accepts as a filter the probe must understand the same way, and
// neither room may import the other.
func FuzzFilterOfSessionAndProbe(f *testing.F) {
	for _, text := range []string{
		"src=10.1.2.3/8 dst=10.0.0.1 proto=tcp sport=1 dport=65535", "src=2001:db8::1/32", "dst=fe80::1%eth0",
		"src=::ffff:10.0.0.1", "src=::ffff:10.0.0.0/120", "src=10.0.0.1 dst=::1", "proto=udplite", "proto=0", "proto=07",
		"proto=+7", "proto=256", "sport=0", "dport=+1", "dport=65536", "proto=tcp proto=tcp", "", " ", "tcp", "port=1", "src=",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		asked, askErr := session.ParseFilter(text)
		marked, markErr := source.ParseRule(text)
		if (askErr == nil) != (markErr == nil) {
			t.Fatalf("filter %q: session says %v, the probe %v", text, askErr, markErr)
		}
		if askErr == nil && session.Filter(marked) != asked {
			t.Fatalf("filter %q: session reads %+v, the probe %+v", text, asked, marked)
		}
	})
}
