// Package helm tests the chart in dist/helm/pillion: it is rendered by Helm's template functions,
// its values are validated by its schema, and the objects are decoded strictly into the types of
// the API. Helm itself takes minutes to compile and is not used.
package helm
