package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/api"
	"pillion.dev/internal/notice"
)

// pagePolicy restricts the page to its own files and this server: no other hosts, no
// inline scripts, no framing.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	indexFile = "index.html"
	// licensesFile lists what the server and the page contain. The page links to it.
	licensesFile = "licenses.txt"
)

// asset is a file of the page in all content encodings.
type asset struct {
	kind, tag string
	plain     []byte
	// packed are the compressed forms, the smallest first.
	packed []packed
}

type packed struct {
	encoding string
	content  []byte
}

// brotliEnd is the suffix of files compressed by the build.
const brotliEnd = ".br"

// page holds the files of the web page in memory, by path.
type page map[string]asset

// newPage reads and compresses all files.
func newPage(files fs.FS) (page, error) {
	p := page{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, brotliEnd) {
			return err
		}
		p[name], err = readAsset(files, name)
		return err
	})
	if err == nil && p[indexFile].plain == nil {
		err = errors.New("no " + indexFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	var licenses bytes.Buffer
	_ = notice.Write(&licenses, notice.All()) // writes to a buffer cannot fail
	p[licensesFile] = newAsset(licensesFile, licenses.Bytes())
	return p, nil
}

func readAsset(files fs.FS, name string) (asset, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return asset{}, err
	}
	a := newAsset(name, content)
	if small, err := fs.ReadFile(files, name+brotliEnd); err == nil {
		a.packed = slices.Insert(a.packed, 0, packed{"br", small})
	}
	return a, nil
}

func newAsset(name string, content []byte) asset {
	sum := sha256.Sum256(content)
	a := asset{kind: mime.TypeByExtension(path.Ext(name)), tag: hex.EncodeToString(sum[:12]), plain: content}
	var small bytes.Buffer
	w, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // the level is valid
	w.Write(content)                                          // writes to a buffer cannot fail
	w.Close()
	a.packed = append(a.packed, packed{"gzip", small.Bytes()})
	return a
}

// form is the smallest form that the client accepts, with its ETag.
func (a *asset) form(accepted string) (encoding, tag string, content []byte) {
	for _, p := range a.packed {
		if accepts(accepted, p.encoding) {
			return p.encoding, `"` + a.tag + "-" + p.encoding + `"`, p.content
		}
	}
	return "", `"` + a.tag + `"`, a.plain
}

// accepts reports whether the header Accept-Encoding lists an encoding with a weight
// other than 0 (RFC 9110, section 12.5.3).
func accepts(header, encoding string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), encoding) {
			value, found := strings.CutPrefix(strings.TrimSpace(weight), "q=")
			q, err := strconv.ParseFloat(value, 64)
			return !found || err != nil || q > 0
		}
	}
	return false
}

// ServeHTTP sends the file at the path, or 304 if it has not changed.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = indexFile
	}
	a, known := p[name]
	if !known {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache") // revalidated by ETag
	header.Set("Content-Type", a.kind)
	header.Set("Vary", "Accept-Encoding")
	encoding, tag, content := a.form(r.Header.Get("Accept-Encoding"))
	if encoding != "" {
		header.Set("Content-Encoding", encoding)
	}
	header.Set("ETag", tag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(api.OpenAPI)
}

// serveHealth answers 200 or 503, with the parts as JSON.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	parts, ok := s.health(r.Context())
	status := struct {
		Status string `json:"status"`
		Parts  []Part `json:"parts"`
	}{"ok", parts}
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		status.Status = "failing"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(status)
}
