package agent

import (
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
				name := field.Tag.Get("name")
				if name == "" {
					name = strings.ToLower(field.Name)
				}
				has = has || name == strings.ReplaceAll(s.Name, "_", "-")
			}
			if !has {
				t.Errorf("pillion-agent %s has no option for %s", program, s.Name)
			}
		}
	}
}
