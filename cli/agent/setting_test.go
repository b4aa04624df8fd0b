package agent

import (
	"cmp"
	"reflect"
	"strings"
	"testing"

	"pillion.dev/session"
)

// TestSettingsHaveOptions: a program that does by hand what a setting asks for has its option.
func TestSettingsHaveOptions(t *testing.T) {
	programs := map[string]reflect.Type{"source": reflect.TypeFor[sourceRunCmd](), "destination": reflect.TypeFor[destinationCmd]()}
	for _, s := range session.Settings() {
		for _, program := range s.ByHand {
			has := false
			for _, field := range reflect.VisibleFields(programs[program]) {
				name := cmp.Or(field.Tag.Get("name"), field.Name)
				has = has || strings.EqualFold(strings.ReplaceAll(name, "-", ""), strings.ReplaceAll(s.Name, "_", ""))
			}
			if !has {
				t.Errorf("pillion-agent %s has no option for %s", program, s.Name)
			}
		}
	}
}
