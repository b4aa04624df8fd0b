package validation

import "github.com/vishvananda/netlink"

// watchRoutes tests all paths again when routes or devices of the calling thread's network
// namespace change.
func (p *Prober) watchRoutes() error {
	routes, links := make(chan netlink.RouteUpdate), make(chan netlink.LinkUpdate)
	done := make(chan struct{})
	if err := netlink.RouteSubscribe(routes, done); err != nil {
		close(done)
		return err
	}
	if err := netlink.LinkSubscribe(links, done); err != nil {
		close(done)
		return err
	}
	p.ended.Go(func() {
		<-p.ending
		close(done) // which closes both channels
	})
	p.ended.Go(func() {
		for range routes {
			p.Recheck()
		}
	})
	p.ended.Go(func() {
		for range links {
			p.Recheck()
		}
	})
	return nil
}
