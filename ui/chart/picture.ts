// A picture of charts, to be saved.
export async function picture(_charts: HTMLElement, _title: string, _subtitle: string): Promise<Blob> {
  return new Blob();
}
