"""Convert results to plain data, files and texts.

Three modules make JSON fields that several results share: ``facts`` describes the model, GPU and price of a result,
``sources`` lists the references of its inputs, and ``deviations`` the prediction errors. ``plain`` converts data for
JSON, CSV and data frames. ``files`` writes files atomically, ``saved`` saves and loads results, and ``texts`` formats
numbers, layouts and number formats. No module depends on a single command.
"""
