package host

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestReadIOAM(t *testing.T) {
	for _, row := range []struct {
		name  string
		files map[string]string
		want  IOAM
		fails bool
	}{
		{"earlier kernel", map[string]string{"conf/eth0/forwarding": "1\n"}, IOAM{}, false},
		{"default", map[string]string{"ioam6_id": "16777215\n", "conf/eth0/ioam6_enabled": "0\n"}, IOAM{Available: true}, false},
		{"router", map[string]string{
			"ioam6_id": "257\n", "conf/eth0/ioam6_enabled": "1\n", "conf/eth1/ioam6_enabled": "0\n", "conf/eth2/ioam6_enabled": "1\n",
			"conf/all/ioam6_enabled": "1\n", "conf/default/ioam6_enabled": "1\n", "conf/lo/ioam6_enabled": "1\n",
		}, IOAM{Available: true, ID: 257, Devices: []string{"eth0", "eth2"}}, false},
		{"no number", map[string]string{"ioam6_id": "x\n"}, IOAM{}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range row.files {
				path := filepath.Join(folder, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := readIOAM(folder); !reflect.DeepEqual(got, row.want) || (err != nil) != row.fails {
				t.Errorf("got %+v, %v; want %+v", got, err, row.want)
			}
		})
	}
}
