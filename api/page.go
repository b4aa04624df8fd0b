package api

// PageSize is the number of items that Pages requests at a time, the maximum.
const PageSize = 1000

// Pages returns the items of all pages of a list, each of which it requests by the token of the page
// before, first by an empty one.
func Pages[T any](request func(token string) (items []T, next string, err error)) ([]T, error) {
	var all []T
	for token := ""; ; {
		items, next, err := request(token)
		if err != nil {
			return nil, err
		}
		if all = append(all, items...); next == "" {
			return all, nil
		}
		token = next
	}
}
