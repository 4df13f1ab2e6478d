"""The compiled part of matching: flat memory and kernels over it, from the reading of publications to the matches.

| file | what it does |
|---|---|
| `kernel`, `regions`, `memory`, `pool` | how kernels are compiled; regions of memory; blocks and lists in them |
| `counts`, `scratch` | what lies where in two of the regions |
| `hashing`, `attributes`, `keys` | names, values, texts, words, topics and tiles as keys |
| `key_records`, `key_slots`, `key_statistics` | what is kept of a key, how it is found, how often it is carried |
| `key_uses`, `sieves` | what of publications is asked for at all |
| `conditions`, `filter_reading`, `given_rows` | a subscription as rows of conditions; reading plain filters into them |
| `emitting`, `programs`, `fetching` | from rows to conjunctions |
| `placing`, `node_lists` | each conjunction is found under one anchor |
| `text_order`, `range_axes`, `range_cuts`, `ranges`, `range_sorting`, `range_gathering` | bitmaps for ranges |
| `json_reading`, `text_keys`, `topic_keys`, `tiles`, `reading` | publications as the facts and numbers they carry |
| `searching`, `range_search`, `verifying`, `reporting` | from facts to matches |
| `changing`, `gathering`, `hash_entries`, `finding` | what Python calls besides: changes, anchors, hashes, keys |
"""
