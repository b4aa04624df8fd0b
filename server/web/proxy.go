package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// origin is where a request comes from.
type origin struct {
	remote netip.Addr
	// encrypted: the client uses TLS, to this port or to a trusted proxy.
	encrypted bool
	// forwarded: a proxy says so, trusted or not.
	forwarded, trusted bool
}

// forwardingHeaders are those that proxies add.
var forwardingHeaders = []string{"X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "X-Real-Ip"}

// origin believes the headers X-Forwarded-For and X-Forwarded-Proto of trusted proxies only.
// Of several addresses the last one that is no trusted proxy is the client's: those before
// it are what the client itself claims.
func (s *Server) origin(r *http.Request) origin {
	o := origin{remote: remoteAddress(r), encrypted: r.TLS != nil}
	o.forwarded = slices.ContainsFunc(forwardingHeaders, func(name string) bool { return r.Header.Get(name) != "" })
	if !o.forwarded || !s.isProxy(o.remote) {
		return o
	}
	o.trusted = true
	protocols := elements(r.Header.Values("X-Forwarded-Proto"))
	o.encrypted = len(protocols) > 0 && strings.EqualFold(protocols[len(protocols)-1], "https")
	for _, text := range slices.Backward(elements(r.Header.Values("X-Forwarded-For"))) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			break
		}
		if o.remote = address.Unmap().WithZone(""); !s.isProxy(o.remote) {
			break
		}
	}
	return o
}

func (s *Server) isProxy(address netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(address.WithZone("")) })
}

// elements returns the elements of a header that may be repeated.
func elements(values []string) []string {
	var all []string
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// plainRefusal says why a request without TLS is not served; empty if it is.
func (s *Server) plainRefusal(o origin) string {
	switch {
	case o.encrypted:
		return ""
	case o.trusted:
		return "the proxy received this request without TLS (X-Forwarded-Proto is not https); use https"
	case !o.remote.IsLoopback():
		return "plain HTTP is accepted on loopback only; use https"
	case o.forwarded:
		return "forwarded by a proxy that is not among trusted_proxies of the server"
	case s.plainOff:
		return "plain HTTP is switched off; use https"
	}
	return ""
}

// redirect sends a browser on this machine to the page over TLS. A request with a token is
// refused instead: its secret has been sent already, and the user should know.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request, o origin) bool {
	page := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.URL.Path == "/" && r.Header.Get("Authorization") == ""
	if !page || o.forwarded || !o.remote.IsLoopback() || !s.plainOff {
		return false
	}
	http.Redirect(w, r, "https://"+r.Host+"/", http.StatusPermanentRedirect)
	return true
}
