package fivetuple

import (
	"encoding/json"
	"net/netip"
	"testing"
)

func TestParseFields(t *testing.T) {
	rows := []struct {
		text string
		want Fields
		ok   bool
	}{
		{"src", Src, true},
		{"src,dst", Src | Dst, true},
		{"dport, sport", Sport | Dport, true},
		{"src,dst,proto,sport,dport", All, true},
		{"src,src", Src, true},
		{"", 0, false},
		{"src,", 0, false},
		{"protocol", 0, false},
		{"SRC", 0, false},
	}
	for _, row := range rows {
		t.Run(row.text, func(t *testing.T) {
			got, err := ParseFields(row.text)
			if got != row.want || (err == nil) != row.ok {
				t.Errorf("got %v, %v; want %v", got, err, row.want)
			}
		})
	}
	for fields := Fields(1); fields <= All; fields++ {
		if again, err := ParseFields(fields.String()); again != fields || err != nil {
			t.Errorf("%v is read as %v, %v", fields, again, err)
		}
		text, err := json.Marshal(fields)
		var again Fields
		if err != nil || json.Unmarshal(text, &again) != nil || again != fields {
			t.Errorf("%v is %s in JSON (%v), and read as %v", fields, text, err, again)
		}
	}
	none := All
	if err := none.UnmarshalText(nil); none != 0 || err != nil {
		t.Errorf("no text is read as %v, %v", none, err)
	}
}

func TestFieldsOf(t *testing.T) {
	key := Key{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.2"), Protocol: 6, Sport: 1234, Dport: 80}
	rows := []struct {
		fields Fields
		want   Key
	}{
		{All, key},
		{Src | Dst, Key{Src: key.Src, Dst: key.Dst}},
		{Src | Protocol | Dport, Key{Src: key.Src, Protocol: 6, Dport: 80}},
		{Sport, Key{Sport: 1234}},
	}
	for _, row := range rows {
		if got := row.fields.Of(key); got != row.want {
			t.Errorf("by %v: got %+v, want %+v", row.fields, got, row.want)
		}
	}
}

func TestFilterOverFields(t *testing.T) {
	filter, err := ParseFilter("src=192.0.2.0/24 dst=198.51.100.2 proto=tcp sport=1234 dport=80")
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		fields Fields
		want   string
	}{
		{All, "src=192.0.2.0/24 dst=198.51.100.2 proto=tcp sport=1234 dport=80"},
		{Src | Dst, "src=192.0.2.0/24 dst=198.51.100.2"},
		{Protocol | Dport, "proto=tcp dport=80"},
		{Sport, "sport=1234"},
	}
	for _, row := range rows {
		if got := filter.Over(row.fields).String(); got != row.want {
			t.Errorf("over %v: got %q, want %q", row.fields, got, row.want)
		}
	}
}
