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
		sparse   bool
		tagged   bool
	}
	count := map[kind]int{}
	for _, v := range all {
		count[kind{v.Encoding, v.Mark.Modules, v.Mark.Sparse, v.Mark.Tagged}]++
	}
	both := wire.Delay | wire.Loss
	for _, e := range wire.Encodings() {
		if codec.HasBlocks(e) {
			if plain, tagged := count[kind{e, 0, false, false}], count[kind{e, 0, false, true}]; plain < 2 || tagged < 2 {
				t.Errorf("%d vectors of %v, %d with a tag", plain, e, tagged)
			}
			continue
		}
		for _, k := range []kind{
			{e, wire.Delay, false, false},
			{e, wire.Loss, false, false},
			{e, wire.Loss, false, true},
			{e, both, false, false},
			{e, both, false, true},
			{e, both, true, false},
			{e, both, true, true},
		} {
			if k.sparse && e.Carries()&wire.CarriesSparse == 0 || !e.Carries().Allows(k.modules) {
				continue
			}
			if n := count[k]; n < 2 {
				t.Errorf("%d vectors of %+v", n, k)
			}
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	const good = `{"name":"x","encoding":"shim","port":1,"modules":"loss","sent":"00","received":"00","sequence":1,"single":true,` +
		`"tag":"01234567","key":"000102030405060708090a0b0c0d0e0f","now":"2026-11-19T10:14:47Z","original":"00","marked":"00"}`
	for _, test := range []struct{ name, old, new string }{
		{"encoding", `"shim"`, `"gre"`},
		{"modules", `"loss"`, `"rate"`},
		{"sent", `"sent":"00"`, `"sent":"g"`},
		{"received", `"received":"00"`, `"received":""`},
		{"original", `"original":"00"`, `"original":"0"`},
		{"marked", `"marked":"00"`, `"marked":"zz"`},
		{"tag", `"01234567"`, `"101234567"`},
		{"key", `0d0e0f"`, `0d0e"`},
		{"key digits", `0d0e0f"`, `0d0e0g"`},
		{"now", `10:14:47Z`, `10:14:47`},
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
