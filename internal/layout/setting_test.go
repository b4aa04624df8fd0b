package layout

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// settingFiles are all that a new setting of marks takes, if it is a single value: its field in all layers, its
// description, the field of the API, the constant of the programs, and the header that uses it.
var settingFiles = []string{"wire/marking.go", "session/setting.go", "api/proto/session.proto", "probe/source/source.go", "probe/source/NAME.h"}

// settingEffects are where the setting stamp_every takes effect and is explained: the packet path,
// benchmarks that choose it, what rows say, and documents.
var settingEffects = regexp.MustCompile(`^(probe|study|docs|wire/test)/|^wire/(doc\.go|.*\.(h|lua))$|^api/proto/flow\.proto$|^README\.md$|\.fixture\.ts$`)

// settingName finds stamp_every, in the forms that it has in each language.
var settingName = regexp.MustCompile(`(?i)stamp[_-]?every`)

// TestSettingFiles checks that what specifies, validates, plans, carries and shows a session names
// no setting, and that docs/howto/extending.md lists the files that do.
func TestSettingFiles(t *testing.T) {
	guide, err := os.ReadFile("docs/howto/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## A setting of sessions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range listedFile.FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	if !slices.Equal(listed, settingFiles) {
		t.Errorf("docs/howto/extending.md lists %q for a setting, want %q", listed, settingFiles)
	}
	eachWatched(t, settingFiles, func(name string, text []byte) {
		if !settingEffects.MatchString(name) && settingName.Match(text) {
			t.Errorf("%s names the setting stamp_every: take it from session.Settings", name)
		}
	})
}
