package report

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestWrite: names that could be markup end no element, and the file names nothing to load.
func TestWrite(t *testing.T) {
	var out strings.Builder
	if err := Write(&out, "of <r>", "text of <r>", map[string]string{"name": "</script><b>"}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"<title>of &lt;r&gt;</title>", "<pre>text of &lt;r&gt;</pre>", "default-src 'none'"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, "</script>"); n != 2 {
		t.Errorf("%d scripts end", n)
	}
	data := regexp.MustCompile(`id="profile">(.*)</script>`).FindStringSubmatch(page)
	var profile map[string]string
	if data == nil || json.Unmarshal([]byte(data[1]), &profile) != nil || profile["name"] != "</script><b>" {
		t.Errorf("the profile is %q", data)
	}
	for _, foreign := range []string{"<link", "@import", "url(", `src="`, "https://", "fetch("} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page has %q", foreign)
		}
	}
}
