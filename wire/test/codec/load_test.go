package codec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

func TestLoadCovers(t *testing.T) {
	all, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	type kind struct {
		encoding wire.Encoding
		modules  wire.Module
	}
	count := map[kind]int{}
	for _, v := range all {
		count[kind{v.Encoding, v.Mark.Modules}]++
	}
	for _, e := range wire.Encodings() {
		for _, m := range []wire.Module{wire.Delay, wire.Loss, wire.Delay | wire.Loss} {
			if n := count[kind{e, m}]; n < 5 {
				t.Errorf("%d vectors of %v with %v", n, e, m)
			}
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	const good = `{"name":"x","encoding":"shim","port":1,"modules":"loss","sent":"00","received":"00","sequence":1,"single":true,"original":"00","marked":"00"}`
	for _, test := range []struct{ name, old, new string }{
		{"encoding", `"shim"`, `"gre"`},
		{"modules", `"loss"`, `"rate"`},
		{"sent", `"sent":"00"`, `"sent":"g"`},
		{"received", `"received":"00"`, `"received":""`},
		{"original", `"original":"00"`, `"original":"0"`},
		{"marked", `"marked":"00"`, `"marked":"zz"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var v codec.Vector
			if err := json.Unmarshal([]byte(good), &v); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(strings.Replace(good, test.old, test.new, 1)), &v); err == nil {
				t.Errorf("no error for %s", test.new)
			}
		})
	}
}
