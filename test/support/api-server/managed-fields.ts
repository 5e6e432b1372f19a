/**
 * Who wrote which field, as every object of a real server says. Nobody here reads it; it
 * is there because it is a good part of the bytes and of the time to parse them.
 */
export const managedFields = (
  manager: string,
  part: string,
): Record<string, unknown> => ({
  managedFields: [
    {
      manager,
      operation: 'Update',
      apiVersion: 'v1',
      time: '2026-01-01T00:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: {
        'f:metadata': {
          'f:annotations': { '.': {}, 'f:example.com/owner': {} },
          'f:labels': {
            '.': {},
            'f:app.kubernetes.io/name': {},
            'f:app.kubernetes.io/part-of': {},
          },
          'f:ownerReferences': {
            '.': {},
            'k:{"uid":"0b9d8c7a-6e5f-4d3c-8b2a-190817263544"}': {},
          },
        },
        [`f:${part}`]: {},
      },
    },
  ],
})
