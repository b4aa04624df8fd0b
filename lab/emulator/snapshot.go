package emulator

// snapshot copies the counters of a running direction. The lock is held for one flow at a
// time, so that packets do not wait: each flow is consistent, and so are the totals,
// which are sums of the copies.
func (d *direction) snapshot() Direction {
	d.mu.Lock()
	list := d.flows.list
	truth := Direction{
		From: d.from.Host, To: d.to.Host, Faults: d.faults, Realtime: d.realtime,
		Control: Control{
			Offered: d.control.offered, Delivered: d.control.delivered,
			Lost: d.control.lost[lostError], InFlight: d.control.inFlight,
		},
		Flows: make([]Flow, 0, len(list)),
	}
	late := d.lateness.clone()
	d.mu.Unlock()
	truth.Late = late.times()

	var total, marked counts
	var totalDelay, markedDelay histogram
	for _, f := range list {
		d.mu.Lock()
		account, delay := f.counts, f.delay.clone()
		d.mu.Unlock()
		entry := f.key.flow()
		entry.ID, entry.Other, entry.Tally = f.id, f.other, account.tally(delay)
		truth.Flows = append(truth.Flows, entry)
		total.add(&account)
		totalDelay.merge(delay)
		if f.key.marked {
			marked.add(&account)
			markedDelay.merge(delay)
		}
	}
	truth.Total, truth.Marked = total.tally(&totalDelay), marked.tally(&markedDelay)
	if d.unread != nil {
		truth.Unread = d.unread()
	}
	return truth
}

// change sets faults of the running direction or, with dry, only checks them.
func (d *direction) change(c Change, dry bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	faults, err := d.faults.Apply(c)
	if err == nil && !dry {
		d.faults = faults
	}
	return err
}
